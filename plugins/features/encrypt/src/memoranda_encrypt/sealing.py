"""Seal a text so that it can be read only in its place: AES-256-GCM, authenticated with all that is stored beside it.

A sealed text is ``s1.``, the id of the data key, and base64 of nonce, ciphertext and tag. What is authenticated with it
is the field, the key's id, and of the item its id, owner, version, type, status, times, archiving and trust. So a text
cannot be moved to another item, owner or field, put back after it was replaced, or have its item relabelled.
"""

from __future__ import annotations

import json
import os
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from operator import itemgetter
from typing import Any

from cryptography.exceptions import InvalidTag

from memoranda.items import MemoryItem, ids_of
from memoranda_encrypt.keyring import DataKey
from memoranda_encrypt.masters import DamagedItemError, NotSealedError

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
