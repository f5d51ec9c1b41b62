"""Master keys, which wrap the data keys of a ring, and what can go wrong with keys.

A master key in a cloud's key management service is a class with the same three members; "Forget a user" has one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path
from typing import Protocol, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memoranda.errors import CorruptStoreError, StoreError


class KeyRingError(StoreError):
    """The key ring or its master key cannot be used; the message says why and what to do."""


class PlainStoreError(StoreError):
    """A store of plain items was opened as an encrypted one."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} holds items, and none of them is encrypted. Run 'memoranda encrypt' first, or open it without "
            f"encryption."
        )


class UnsealingError(CorruptStoreError):
    """A stored item cannot be decrypted. ``item_id`` names it."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(f"The stored item {item_id!r} cannot be decrypted: {reason}")
        self.item_id = item_id


class DamagedItemError(UnsealingError):
    """The text or a readable field of a sealed item is not what was stored."""

    def __init__(self, item_id: str, version: int) -> None:
        super().__init__(
            item_id,
            f"its text, or a field that is stored beside it, is not what was sealed as version {version}. It was "
            f"damaged, changed, or copied there from another item, owner or version; restore it from a backup.",
        )


class NotSealedError(UnsealingError):
    """An item lies in an encrypted store without a seal."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            item_id, "it is not encrypted. Run 'memoranda encrypt' if the store held items before, or remove it."
        )


class MissingKeyError(UnsealingError):
    """The key ring does not have the key of an item."""

    def __init__(self, item_id: str, key_id: str, ring: str) -> None:
        super().__init__(
            item_id, f"the key ring {ring} has no key {key_id!r}. Open the store with the ring it was made with."
        )
        self.key_id = key_id


class DestroyedKeyError(UnsealingError):
    """The key of an item was destroyed, so that no copy of the item can be read again."""

    def __init__(self, item_id: str, key_id: str, at: str) -> None:
        super().__init__(
            item_id, f"its key {key_id!r} was destroyed at {at}, when its user was forgotten. Purge the item."
        )
        self.key_id = key_id


KEY_VARIABLE = "MEMORANDA_MASTER_KEY"
FILE_VARIABLE = "MEMORANDA_MASTER_KEY_FILE"

_SIZE = 32
_NONCE = 12


@runtime_checkable
class MasterKey(Protocol):
    """Wraps and unwraps data keys. Both methods may block: they are called in threads, and seldom."""

    @property
    def name(self) -> str:
        """What tells this key from others, and nothing else of it. A ring notes which key has wrapped what."""
        ...

    def wrap(self, key: bytes, context: bytes) -> bytes:
        """Return a key encrypted, and authenticated together with the context."""
        ...

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return what :meth:`wrap` was given. Raise any exception if key, context or text are not those of then."""
        ...


class LocalMasterKey:
    """A master key of 32 bytes in this process: AES-256-GCM."""

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, (bytes, bytearray)) or len(key) != _SIZE:
            raise KeyRingError("A master key has 32 bytes. 'memoranda keys new FILE' makes one.")
        self._cipher = AESGCM(bytes(key))
        self._name = hashlib.sha256(b"memoranda master key" + key).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"LocalMasterKey(name={self.name!r})"

    @property
    def name(self) -> str:
        """The beginning of a hash of the key."""
        return self._name

    @classmethod
    def generate(cls) -> LocalMasterKey:
        """Return a new key that is kept nowhere: for tests."""
        return cls(secrets.token_bytes(_SIZE))

    @classmethod
    def from_text(cls, text: str, source: str) -> LocalMasterKey:
        """Return the key of a text in base64; ``source`` says in errors where it comes from."""
        try:
            return cls(base64.b64decode(text.strip(), validate=True))
        except (binascii.Error, ValueError, KeyRingError):
            raise KeyRingError(
                f"{source} holds no master key: 32 bytes in base64. 'memoranda keys new FILE' makes one."
            ) from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> LocalMasterKey:
        """Return the key of a file that :meth:`make_file` made."""
        try:
            text = Path(path).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise KeyRingError(
                f"The master key file {os.fspath(path)!r} cannot be read: {error.strerror}. "
                f"'memoranda keys new FILE' makes one."
            ) from error
        return cls.from_text(text, f"The file {os.fspath(path)!r}")

    @classmethod
    def from_environment(cls) -> LocalMasterKey:
        """Return the key of ``MEMORANDA_MASTER_KEY``, or of the file that ``MEMORANDA_MASTER_KEY_FILE`` names."""
        if text := os.environ.get(KEY_VARIABLE):
            return cls.from_text(text, f"The environment variable {KEY_VARIABLE}")
        if path := os.environ.get(FILE_VARIABLE):
            return cls.from_file(path)
        raise KeyRingError(
            f"An encrypted store needs its master key: set {FILE_VARIABLE} to a file that 'memoranda keys new FILE' "
            f"made, or {KEY_VARIABLE} to its text, or open the store with encrypt=KeyRing(…)."
        )

    @staticmethod
    def make_file(path: str | os.PathLike[str]) -> None:
        """Write a new key to a file that only its owner can read. Raises KeyRingError if there is one already."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise KeyRingError(f"The file {os.fspath(path)!r} cannot be made: {error.strerror}.") from error
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(base64.b64encode(secrets.token_bytes(_SIZE)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def wrap(self, key: bytes, context: bytes) -> bytes:
        """Return the key encrypted."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the key. Raises KeyRingError if it was wrapped by another master key, or damaged."""
        try:
            return self._cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], context)
        except InvalidTag:
            raise KeyRingError("A wrapped key is damaged, or another master key has wrapped it.") from None
