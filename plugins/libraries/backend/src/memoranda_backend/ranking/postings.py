"""Arrays that grow: what a scope keeps from one search to the next, brought up to date by what is added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPARE = 8
"""One in how many values of an array is spare, or not sorted yet."""

_FEW = 128

_QUICKLY_SORTED = 1 << 16
"""How many values are sorted in the time of a few looks at very many that are not sorted."""

_QUICKLY_SEEN = 1 << 10
"""How many values are looked through in next to no time: a few items were added since the last search."""


class Column:
    """An array with room for more at its end."""

    def __init__(self, kind: Any, width: int = 0) -> None:
        self._room = np.empty((_FEW, width) if width else _FEW, dtype=kind)
        self.used = 0

    @property
    def values(self) -> NDArray[Any]:
        """The values so far."""
        return self._room[: self.used]

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return self._room.nbytes

    def extend(self, values: Any) -> None:
        """Append values."""
        end = self.used + len(values)
        if end > len(self._room):
            room = np.empty((end + end // SPARE + _FEW, *self._room.shape[1:]), dtype=self._room.dtype)
            room[: self.used] = self.values
            self._room = room
        self._room[self.used : end] = values
        self.used = end


class Postings:
    """Pairs of a key and a value, found by their keys. Those that were added last are looked through one by one."""

    def __init__(self) -> None:
        self._keys, self._values = Column(np.int32), Column(np.int32)
        self._sorted = 0
        self._starts: NDArray[Any] = np.zeros(2, np.int64)
        self._by_key: NDArray[Any] = np.empty(0, np.int32)

    @property
    def size(self) -> int:
        """The bytes that they take."""
        return self._keys.size + self._values.size + self._starts.nbytes + self._by_key.nbytes

    def extend(self, keys: Any, values: Any) -> None:
        """Append pairs."""
        self._keys.extend(keys)
        self._values.extend(values)

    def _sort(self) -> None:
        """Sort what was added, unless it is little and there is much: then it is looked through."""
        keys = self._keys.values
        added = len(keys) - self._sorted
        is_little = added <= _QUICKLY_SEEN or len(keys) > _QUICKLY_SORTED
        if not added or (is_little and added * SPARE <= len(keys)):
            return
        order = stable_order(keys)
        self._starts = np.concatenate(([0], np.cumsum(np.bincount(keys))))
        self._by_key = self._values.values[order]
        self._sorted = len(keys)

    @property
    def keys(self) -> NDArray[Any]:
        """All keys, in the order of adding."""
        return self._keys.values

    def of(self, keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the values of many keys, each with the place of its key among them."""
        self._sort()
        starts = self._starts
        known = np.minimum(keys, len(starts) - 2)
        which, at = spans(starts[known], np.where(known == keys, starts[known + 1], starts[known]))
        values = self._by_key[at]
        recent = self._keys.values[self._sorted :]
        held = np.flatnonzero(np.isin(recent, keys)) if len(recent) else recent
        if not len(held):
            return which, values
        order = np.argsort(keys)
        first, end = (np.searchsorted(keys[order], recent[held], side) for side in ("left", "right"))
        of, place = spans(first, end)
        later = self._values.values[self._sorted :][held[of]]
        return np.concatenate((which, order[place])), np.concatenate((values, later))


def stable_order(keys: NDArray[Any]) -> NDArray[Any]:
    """Return the places of numbers below 2 ** 32 in the order of the numbers; equal ones stay in their order."""
    # Numbers of two bytes are sorted in a tenth of the time.
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    if keys.max(initial=0) >= 1 << 16:
        order = order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def spans(first: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return all numbers of some ranges, each with the place of its range among them."""
    counts = end - first
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) + (first - np.cumsum(counts) + counts)[which]
