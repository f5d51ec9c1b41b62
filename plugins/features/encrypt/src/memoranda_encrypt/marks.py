"""What an encrypted store says of itself: that it is encrypted, with which ring, and if it may hold plain items.

The inner store keeps it beside its items, and refuses to be opened without encryption by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Literal

from memoranda.offloading import offload
from memoranda.store import Capability, Store
from memoranda.store.backend import AS_ADDED, EVERY_ITEM, Change, Filter, Write, items_where
from memoranda_encrypt.errors import KeyRingError, PlainStoreError
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.sealing import is_plain, is_sealed, key_id_of, sealed_text

PREFIX = "encrypted"
"""What the URL of an encrypted store begins with."""

Unsealed = Literal["refuse", "read"]
"""What becomes of a stored item without a seal."""

_RING, _PLAIN = "ring", "plain"


async def admitted(inner: Store, ring: KeyRing, label: str, unsealed: Unsealed) -> bool:
    """Open the ring of a store, let the open inner store say that it is encrypted, and return if it has plain items.

    Raises KeyRingError for another ring than that of its items, and PlainStoreError for a store whose items are all
    plain, unless these are to be read.
    """
    mark = inner.wrapper_mark
    if mark is None:
        return await _first_admitted(inner, ring, label, unsealed)
    if not ring.exists:
        await _check_no_sealed(inner, f"{label} holds encrypted items, and there is no key ring at {ring.label}.")
    await offload(1 << 30, ring.open)
    if mark.get(_RING) != ring.fingerprint:
        await _check_no_sealed(inner, f"{label} was encrypted with another key ring than {ring.label}.")
        if inner.access != "read":
            await set_mark(inner, ring, plain=bool(mark.get(_PLAIN)))
    return bool(mark.get(_PLAIN))


async def _first_admitted(inner: Store, ring: KeyRing, label: str, unsealed: Unsealed) -> bool:
    """Do the same for a store that does not say yet that it is encrypted: an empty one, or one of an earlier clone."""
    key_id, has_plain = await kinds_of_items(inner)
    if key_id is not None and not ring.exists:
        raise KeyRingError(f"{label} holds encrypted items, and there is no key ring at {ring.label}. {_GIVE_THE_RING}")
    if has_plain and key_id is None and unsealed == "refuse":
        raise PlainStoreError(label)
    await offload(1 << 30, ring.open)
    if key_id is not None and not ring.has(key_id):
        raise KeyRingError(f"{label} was encrypted with another key ring than {ring.label}. {_GIVE_THE_RING}")
    if inner.access != "read" and (key_id is not None or not has_plain):
        await set_mark(inner, ring, plain=has_plain)
    return has_plain


_GIVE_THE_RING = "Give the path of the ring that the store was made with."


async def set_mark(inner: Store, ring: KeyRing, *, plain: bool) -> None:
    """Let a store say that it is encrypted with a ring, and if some of its items are not."""
    mark: dict[str, Any] = {"prefix": PREFIX, _RING: ring.fingerprint, _PLAIN: plain}
    await write_mark(inner, mark)


async def write_mark(inner: Store, mark: Mapping[str, Any] | None) -> None:
    """Let a store say that it is only to be opened with a wrapper, which ``prefix`` names; None takes that back."""
    text = None if mark is None else json.dumps(mark, sort_keys=True)
    await inner.bottom.write(Write(change=Change("mark", EVERY_ITEM, text=text)))


async def _check_no_sealed(inner: Store, reason: str) -> None:
    if (await kinds_of_items(inner))[0] is not None:
        raise KeyRingError(f"{reason} {_GIVE_THE_RING}")


async def kinds_of_items(inner: Store) -> tuple[str | None, bool]:
    """Return the id of a key that an item is sealed with, None if none is, and if there are items without a seal."""
    key_id, has_plain = None, False
    everything = inner.bottom.stream(
        items_where(Filter(archived=None), AS_ADDED, deleted=Capability.DELETE in inner.capabilities)
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
