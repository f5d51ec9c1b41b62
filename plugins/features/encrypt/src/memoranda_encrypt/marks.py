"""What an encrypted store says of itself: that it is encrypted, with which ring, and if it may hold plain items.

The engine keeps it beside the items. A store without encryption finds it there, and refuses to be opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Literal

from memoranda.offloading import offload
from memoranda.store import Capability
from memoranda.store.backend import AS_ADDED, EVERY_ITEM, Change, Engine, Filter, Write, items_where
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.masters import KeyRingError, PlainStoreError
from memoranda_encrypt.sealing import is_plain, is_sealed, key_id_of, sealed_text

PREFIX = "encrypted"
"""What the URL of an encrypted store begins with."""

Unsealed = Literal["refuse", "read"]
"""What becomes of a stored item without a seal."""

_RING, _PLAIN = "ring", "plain"


class Admission:
    """Admits a ring to the items of an open engine; ``label`` and ``is_read_only`` are those of its store."""

    def __init__(self, engine: Engine, ring: KeyRing, label: str, *, is_read_only: bool) -> None:
        self._engine = engine
        self._ring = ring
        self._label = label
        self._is_read_only = is_read_only

    async def admit(self, mark: Mapping[str, Any] | None, unsealed: Unsealed) -> bool:
        """Open the ring, let the engine say that it is encrypted, and return if it has plain items.

        ``mark`` is what the engine says so far. Raises KeyRingError for another ring than that of its items, and
        PlainStoreError for a store whose items are all plain, unless these are to be read.
        """
        if mark is None:
            return await self._admit_first(unsealed)
        ring, has_plain = self._ring, bool(mark.get(_PLAIN))
        if not ring.exists:
            await self._check_no_sealed(
                f"{self._label} holds encrypted items, and there is no key ring at {ring.label}."
            )
        await offload(1 << 30, ring.open)
        if mark.get(_RING) != ring.fingerprint:
            await self._check_no_sealed(f"{self._label} was encrypted with another key ring than {ring.label}.")
            if not self._is_read_only:
                await set_mark(self._engine, ring, plain=has_plain)
        return has_plain

    async def _admit_first(self, unsealed: Unsealed) -> bool:
        """Do the same for a store that does not say yet that it is encrypted: an empty one, or an earlier clone's."""
        ring, label = self._ring, self._label
        key_id, has_plain = await kinds_of_items(self._engine)
        if key_id is not None and not ring.exists:
            raise KeyRingError(
                f"{label} holds encrypted items, and there is no key ring at {ring.label}. {_GIVE_THE_RING}"
            )
        if has_plain and key_id is None and unsealed == "refuse":
            raise PlainStoreError(label)
        await offload(1 << 30, ring.open)
        if key_id is not None and not ring.has(key_id):
            raise KeyRingError(f"{label} was encrypted with another key ring than {ring.label}. {_GIVE_THE_RING}")
        if not self._is_read_only and (key_id is not None or not has_plain):
            await set_mark(self._engine, ring, plain=has_plain)
        return has_plain

    async def _check_no_sealed(self, reason: str) -> None:
        if (await kinds_of_items(self._engine))[0] is not None:
            raise KeyRingError(f"{reason} {_GIVE_THE_RING}")


_GIVE_THE_RING = "Give the path of the ring that the store was made with."


async def set_mark(engine: Engine, ring: KeyRing, *, plain: bool) -> None:
    """Let a store say that it is encrypted with a ring, and if some of its items are not."""
    mark: dict[str, Any] = {"prefix": PREFIX, _RING: ring.fingerprint, _PLAIN: plain}
    await write_mark(engine, mark)


async def write_mark(engine: Engine, mark: Mapping[str, Any] | None) -> None:
    """Let a store say that it is only to be opened with a wrapper, which ``prefix`` names; None takes that back."""
    text = None if mark is None else json.dumps(mark, sort_keys=True)
    await engine.write(Write(change=Change("mark", EVERY_ITEM, text=text)))


async def kinds_of_items(engine: Engine) -> tuple[str | None, bool]:
    """Return the id of a key that an item is sealed with, None if none is, and if there are items without a seal."""
    key_id, has_plain = None, False
    everything = engine.stream(
        items_where(Filter(archived=None), AS_ADDED, deleted=Capability.DELETE in engine.capabilities)
    )
    async with aclosing(everything):
        async for stored in everything:
            if is_plain(stored):
                has_plain = True
            elif key_id is None and is_sealed(stored):
                key_id = key_id_of(sealed_text(stored))
            if key_id is not None and has_plain:
                break
    return key_id, has_plain
