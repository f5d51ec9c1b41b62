"""Sealing: a text that can be read only in its place, and what an encrypted store says of itself.

A text is sealed by AES-256-GCM, authenticated with all that is stored beside it. It becomes ``s1.``, the id of the data
key, and base64 of nonce, ciphertext and tag. What is authenticated with it is the field, the key's id, and of the
item its id, owner, version, type, status, times, archiving and trust. So a text cannot be moved to another item, owner
or field, put back after it was replaced, or have its item relabelled.

A store says that it is encrypted, with which ring, and if it may hold plain items. The engine keeps that beside the
items. A store without encryption finds it there, and refuses to be opened.
"""

from __future__ import annotations

import json
import os
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from contextlib import aclosing
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal

from cryptography.exceptions import InvalidTag

from memoranda.items import MemoryItem, ids_of
from memoranda.loops import offload
from memoranda.store import Capability
from memoranda.store.backend import AS_ADDED, EVERY_ITEM, Change, Engine, Filter, Write, items_where
from memoranda_encrypt.keyring import DataKey, KeyRing
from memoranda_encrypt.masters import DamagedItemError, KeyRingError, NotSealedError, PlainStoreError

PREFIX = "s1."
_KEY_ID = slice(len(PREFIX), len(PREFIX) + 16)
_TEXT = len(PREFIX) + 17
_NONCE = 12
_UNPADDED = -(1 + _NONCE + 16) % 3
"""What is left to a multiple of three bytes after the byte that counts the padding, the nonce and the tag."""

_BETWEEN, _NOTHING = "\x1f", "\x1e"
_state_of = itemgetter("id", "memory_type", "status", "created_at", "updated_at", "archived_by", "trust", "version")


def is_sealed(item: MemoryItem) -> bool:
    """Return True if an item of the inner store carries a sealed text."""
    payload = item.payload
    return payload is not None and payload.startswith(PREFIX)


def is_plain(item: MemoryItem) -> bool:
    """Return True if an item of the inner store was stored without encryption; False for a sealed text, damaged or not.

    A stored item that is sealed has a payload of no format, and no content.
    """
    damaged = item.payload is not None and item.payload_format is None and not item.content
    return not is_sealed(item) and not damaged


def key_id_of(text: str) -> str:
    """Return the id of the key that a text is sealed with."""
    return text[_KEY_ID]


def place_of(item: MemoryItem) -> str:
    """Return what an item's texts are authenticated with, except the field; unique for every place.

    The usual form is quick to make. A text that holds one of its two separators would make it ambiguous, so that such
    an item gets JSON.
    """
    held = item.__dict__
    item_id, kind, status, created, updated, archived, trust, version = _state_of(held)
    parts = (item_id, kind, status, created, updated, archived or _NOTHING, trust or _NOTHING, str(version))
    text = _BETWEEN.join(parts)
    nothing = (not archived) + (not trust)
    if archived == "" or trust == "" or text.count(_BETWEEN) != len(parts) - 1 or text.count(_NOTHING) != nothing:
        text = json.dumps([item_id, kind, status, created, updated, archived, trust, version])
    metadata = held["metadata"].__dict__
    further = _branch_text(item) if kind == "branch" else ""
    return f"{_owner_text(ids_of(metadata), metadata['namespace'])}{text}{further}"


@lru_cache(maxsize=4096)
def _owner_text(ids: tuple[str | None, ...], namespace: tuple[str, ...]) -> str:
    return json.dumps([*ids, list(namespace)])


def _branch_text(item: MemoryItem) -> str:
    """Return the data of a branch's record, which the store can read but nobody may change."""
    held: Any = item.__dict__
    return json.dumps([held.get(name) for name in ("parent", "at", "earlier", "places")], sort_keys=True)


def sealed(key: DataKey, field: str, place: str, plain: bytes) -> str:
    """Return a text sealed for a field of the item at a place.

    It is padded so that its base64 has no unused bits: each bit that is stored then counts.
    """
    nonce = os.urandom(_NONCE)
    padding = (_UNPADDED - len(plain)) % 3
    padded = b"%c%b%b" % (padding, plain, b"\0" * padding)
    text = key.cipher.encrypt(nonce, padded, f"{field} {key.id} {place}".encode())
    return f"{PREFIX}{key.id}.{b2a_base64(nonce + text, newline=False).decode()}"


def opened(key: DataKey, field: str, place: str, text: str, item: MemoryItem) -> bytes:
    """Return what was sealed. Raises DamagedItemError, naming the item, if anything is not as it was."""
    if text[:_TEXT] != f"{PREFIX}{key.id}.":
        raise DamagedItemError(item.id, item.version)
    try:
        raw = a2b_base64(text[_TEXT:], strict_mode=True)
        padded = key.cipher.decrypt(raw[:_NONCE], raw[_NONCE:], f"{field} {key.id} {place}".encode())
    except (InvalidTag, Base64Error, ValueError):
        raise DamagedItemError(item.id, item.version) from None
    return padded[1 : len(padded) - padded[0]]


def sealed_text(item: MemoryItem) -> str:
    """Return the sealed text of an item of the inner store. Raises NotSealedError if it has none."""
    if not is_sealed(item) or item.payload is None:
        raise NotSealedError(item.id)
    return item.payload


URL_PREFIX = "encrypted"
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
    mark: dict[str, Any] = {"prefix": URL_PREFIX, _RING: ring.fingerprint, _PLAIN: plain}
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
