"""The layouts of several scopes one after the other, so that one pass ranks them all, each by its own counts.

Most of the time of a ranking goes into steps of numpy, which take hardly longer for four scopes than for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.passages import Weights
from memoranda_backend.ranking.scope_arrays import Flags, Floats, Ints, Layout, Neighbours, ScopeArrays


class SideBySide:
    """Scopes that have items, with the arrays of their layouts joined; those of a single scope are its own.

    What is one value for each scope is a list, which ``of_items`` and its like bring to the length of the arrays.
    """

    def __init__(self, scopes: Sequence[ScopeArrays]) -> None:
        self.scopes = scopes
        self.layouts: list[Layout] = [each.layout for each in scopes]
        self.is_one = len(scopes) == 1
        self.item_counts = [len(each) for each in self.layouts]
        self.place_counts = [each.place_count for each in self.layouts]
        self.sitting_counts = [len(each.sitting_starts) for each in self.layouts]
        *self.first_items, self.item_count = accumulate(self.item_counts, initial=0)
        *self.first_places, self.place_count = accumulate(self.place_counts, initial=0)
        *self.first_sittings, self.sitting_count = accumulate(self.sitting_counts, initial=0)
        self.has_passages = self.place_count > self.item_count
        if self.is_one:
            self._take(self.layouts[0])
        else:
            self._join()

    def _take(self, one: Layout) -> None:
        self.rows, self.numbers, self.times = one.rows, one.numbers, one.times
        self.states, self.speaks = one.states, one.speaks
        self.lengths, self.parts, self.first_place, self.item_at = one.lengths, one.parts, one.first_place, one.item_at
        self.sitting, self.sitting_starts = one.sitting, one.sitting_starts

    def _join(self) -> None:
        layouts = self.layouts
        self.rows, self.numbers, self.times, self.states, self.speaks, self.lengths, self.parts = (
            np.concatenate([getattr(layout, name) for layout in layouts])
            for name in ("rows", "numbers", "times", "states", "speaks", "lengths", "parts")
        )
        self.item_at = self._from(self.first_items, [layout.item_at for layout in layouts])
        self.sitting = self._from(self.first_sittings, [layout.sitting for layout in layouts])
        self.sitting_starts = self._from(self.first_items, [layout.sitting_starts for layout in layouts])
        # Where an item ends, the next one begins.
        ends = self._from(self.first_places, [layout.first_place[1:] for layout in layouts])
        self.first_place = np.concatenate(([0], ends))

    @staticmethod
    def _from(firsts: Sequence[int], parts: Sequence[Ints]) -> Ints:
        """Return numbers one after the other, those of each scope counted from its first."""
        return np.concatenate([first + part for first, part in zip(firsts, parts, strict=True)])

    def items_of(self, scope: int) -> slice:
        """Return where the items of a scope stand."""
        first = self.first_items[scope]
        return slice(first, first + self.item_counts[scope])

    def places_of(self, scope: int) -> slice:
        """Return where the places of a scope stand."""
        first = self.first_places[scope]
        return slice(first, first + self.place_counts[scope])

    # One value for each scope

    def of_items(self, values: Sequence[float]) -> Any:
        """Return the value of the scope of each item; of a single scope, just its value."""
        return values[0] if self.is_one else np.repeat(values, self.item_counts)

    def of_places(self, values: Sequence[float]) -> Any:
        """Return the value of the scope of each place; of a single scope, just its value."""
        return values[0] if self.is_one else np.repeat(values, self.place_counts)

    def of_sittings(self, values: Sequence[float]) -> Any:
        """Return the value of the scope of each sitting; of a single scope, just its value."""
        return values[0] if self.is_one else np.repeat(values, self.sitting_counts)

    def sums_of_items(self, values: Floats) -> list[float]:
        """Return the sum of the values of the items of each scope."""
        return _reduced(np.add, values, self.first_items, self.is_one)

    def most_of_items(self, values: Floats) -> list[float]:
        """Return the greatest value of the items of each scope."""
        return _reduced(np.maximum, values, self.first_items, self.is_one)

    def sums_of_places(self, values: Floats) -> list[float]:
        """Return the sum of the values of the places of each scope."""
        return _reduced(np.add, values, self.first_places, self.is_one)

    def most_of_places(self, values: Floats) -> list[float]:
        """Return the greatest value of the places of each scope."""
        return _reduced(np.maximum, values, self.first_places, self.is_one)

    # The arrays of the layouts

    def by_item(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the greatest value of the places of each item."""
        return np.maximum.reduceat(values, self.first_place[:-1]) if self.has_passages else values

    def pairs(self, reach: int) -> tuple[list[Flags], Ints]:
        """Return what :meth:`Layout.pairs` tells; the last items of a scope are followed by none of the next one."""
        if self.is_one:
            return self.layouts[0].pairs(reach)
        found = [each.pairs(reach) for each in self.layouts]
        followed = [np.concatenate(flags) for flags in zip(*[followed for followed, _ in found], strict=True)]
        return followed, np.concatenate([around for _, around in found])

    def neighbours(self, weights: Weights) -> Neighbours:
        """Return what places lend to those around them; nothing is lent from one scope to another."""
        if self.is_one:
            return self.layouts[0].neighbours(weights)
        found = [each.neighbours(weights) for each in self.layouts]
        factors = np.concatenate([each.factors for each in found], axis=1)
        return Neighbours(found[0].offsets, factors, np.concatenate([each.borrowed for each in found]))


def _reduced(how: np.ufunc, values: Floats, first: Sequence[int], is_one: bool) -> list[float]:
    # Of all values at once it is much faster, and a sum more exact.
    return [float(how.reduce(values))] if is_one else how.reduceat(values, first).tolist()
