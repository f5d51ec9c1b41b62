"""What ``memoranda.open(url, encrypt=…)``, ``encrypted+sqlite:///…`` and ``ciphertext+sqlite:///…`` call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.opening import data_folder
from memoranda.store import Store
from memoranda.store.layers import add_layer, layer_of
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.layer import EncryptionLayer
from memoranda_encrypt.masters import LocalMasterKey
from memoranda_encrypt.sealing import URL_PREFIX, Unsealed

KEYS_VARIABLE = "MEMORANDA_KEYS"
"""The environment variable that names the file of the key ring."""


StoreT = TypeVar("StoreT", bound=Store)


def with_encryption(store: StoreT, ring: KeyRing, *, unsealed: Unsealed = "refuse") -> StoreT:
    """Encrypt what a store keeps with the keys of a ring, and return the store, which is to be opened then.

    ``unsealed="read"`` also shows items that are not encrypted, while a store is being encrypted in place. Raises
    InputError for what is no ring, and for a store that is open or encrypted already.
    """
    if not isinstance(store, Store) or layer_of(store, EncryptionLayer) is not None:
        raise InputError("Encryption takes a store of memoranda that is not encrypted yet.", field="encrypt")
    if store.needs_init and store.is_open:
        raise InputError("Encryption is put into a store before it is opened.", field="encrypt")
    store.wrapping = add_layer(store, EncryptionLayer, store, ring, unsealed=unsealed)
    store.wrapper = URL_PREFIX
    store.expect_opening()
    return store


def encrypted(
    store: StoreT, *, value: Any, keys: str | None = None, master_key: str | None = None, unsealed: Any = "refuse"
) -> StoreT:
    """Return a store encrypted: with the ring that is given, or with the one that URL and environment name."""
    if value is not True and not isinstance(value, KeyRing):
        raise InputError("encrypt takes a KeyRing, or True for the one that the environment names.", field="encrypt")
    ring = value if isinstance(value, KeyRing) else ring_of(keys, master_key)
    return with_encryption(store, ring, unsealed=unsealed)


def ciphertext(store: Store, *, value: Any) -> Store:
    """Return an encrypted store as it is, to read, export and purge what is sealed; items cannot be added to it."""
    if value is not True:
        raise InputError("ciphertext takes True.", field="ciphertext")
    store.wrapper = URL_PREFIX
    return store


OPTIONS: Mapping[str, Callable[[str], Any]] = {"keys": str, "master_key": str, "unsealed": str}
encrypted.options = OPTIONS  # type: ignore[attr-defined]  # where memoranda.open looks for them


def ring_of(keys: str | None = None, master_key: str | None = None, **options: Any) -> KeyRing:
    """Return the ring in the file ``keys`` with the master key in the file ``master_key``.

    Without them, the environment says: ``MEMORANDA_KEYS``, else a file in the user's data folder;
    ``MEMORANDA_MASTER_KEY`` or ``MEMORANDA_MASTER_KEY_FILE``.
    """
    master = LocalMasterKey.from_environment() if master_key is None else LocalMasterKey.from_file(master_key)
    return KeyRing(master, keys_path(keys), **options)


def keys_path(keys: str | None = None) -> str:
    """Return the file of the ring: the one given, that of the environment, or the one in the user's data folder."""
    path = keys or os.environ.get(KEYS_VARIABLE)
    if path:
        return path
    folder = data_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder / "keys.db")
