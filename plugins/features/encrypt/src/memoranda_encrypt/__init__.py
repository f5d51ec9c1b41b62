"""Encrypt any store with a key per user, so that destroying a key forgets the user in every backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_encrypt.keyring import KeyInfo, KeyRing
    from memoranda_encrypt.layer import EncryptionLayer
    from memoranda_encrypt.masters import (
        DamagedItemError,
        DestroyedKeyError,
        KeyRingError,
        LocalMasterKey,
        MasterKey,
        MissingKeyError,
        NotSealedError,
        PlainStoreError,
        UnsealingError,
    )
    from memoranda_encrypt.opening import Converted, decrypt, encrypt, rotate, with_encryption

__all__ = [
    "Converted", "DamagedItemError", "DestroyedKeyError", "EncryptionLayer", "KeyInfo", "KeyRing", "KeyRingError",
    "LocalMasterKey", "MasterKey", "MissingKeyError", "NotSealedError", "PlainStoreError", "UnsealingError", "decrypt",
    "encrypt", "rotate", "with_encryption",
]  # fmt: skip

_ERRORS = (
    "DamagedItemError", "DestroyedKeyError", "KeyRingError", "MissingKeyError", "NotSealedError",
    "PlainStoreError", "UnsealingError",
)  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "opening": ["Converted", "decrypt", "encrypt", "rotate", "with_encryption"],
        "keyring": ["KeyInfo", "KeyRing"],
        "layer": ["EncryptionLayer"],
        "masters": [*_ERRORS, "LocalMasterKey", "MasterKey"],
    },
)
