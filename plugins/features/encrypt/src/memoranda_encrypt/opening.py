"""Encrypt a store: as it is opened, or in place, item by item, while others read and write.

In place, each item is replaced by compare-and-set, so that its version goes up by one and no change of another writer
is lost. All of it can be broken off at any moment, by kill -9 too, and is completed by calling it again. Rotating data
keys goes the same way.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from memoranda.errors import ConflictError, InputError, VersionConflictError
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.opening import data_folder
from memoranda.store import Capability, Erasing, Progress, Store
from memoranda.store.backend import (
    EVERY_ITEM,
    Expected,
    FieldEquals,
    Filter,
    Write,
    items_of_ids,
    items_where,
)
from memoranda.store.layers import add_layer, layer_of
from memoranda_encrypt.keyring import GRACE, KeyRing
from memoranda_encrypt.layer import EncryptionLayer
from memoranda_encrypt.masters import LocalMasterKey
from memoranda_encrypt.sealing import (
    URL_PREFIX,
    Unsealed,
    is_sealed,
    key_id_of,
    kinds_of_items,
    sealed_text,
    set_mark,
    write_mark,
)

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


Due = Callable[[MemoryItem], Awaitable[bool]]
"""Tells if a stored item is to be converted."""

Convert = Callable[[Sequence[MemoryItem], Sequence[int], Sequence[int]], Awaitable[Sequence[MemoryItem]]]
"""Makes stored items of items, for the versions that they will have, instead of those that are expected."""

_ITEMS_PER_WRITE = 100
_ROUNDS = 10
"""How often a store is gone through for items that others have written meanwhile."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The numbers of converted items and destroyed keys, and why something may still be on the disk."""

    items: int
    keys: int = 0
    pending: str = ""


async def rotate(
    store: Store, user_id: str | None = None, *, progress: Progress | None = None, grace: float = GRACE
) -> Converted:
    """Give a user, or without one every user, a new data key, and encrypt all items with it.

    A rotation that was begun and not ended is completed instead. Retired keys are destroyed once nothing uses them, an
    hour after their retirement at the earliest: a later rotation does that.
    """
    layer = layer_of(store, EncryptionLayer)
    if layer is None:
        raise InputError("Keys are rotated in a store that was opened with encryption.", field="store")
    layer.ensure_writable()
    ring = layer.ring
    rotated = ring.begin_rotation(user_id)
    layer.forget_decrypted()
    stored_user = None if rotated is None else layer.opener.names.owner("user_id", rotated)
    wanted = Filter(metadata=None if stored_user is None else MemoryMetadata(user_id=stored_user), archived=None)

    async def is_old(stored: MemoryItem) -> bool:
        if not is_sealed(stored):
            return False
        (item,) = await layer.opener.all_opened([stored], keep=True) or (None,)
        if item is None:
            return False  # Its user was forgotten.
        return key_id_of(sealed_text(stored)) != (await ring.for_writing(item.metadata.user_id)).id

    done = await _converted(layer, wanted, is_old, layer.writes.resealed, progress)
    used = [key_id_of(sealed_text(stored)) async for stored in layer.all_stored() if is_sealed(stored)]
    return Converted(done, ring.end_rotation(used, grace=grace))


async def encrypt(store: Store, ring: KeyRing, *, progress: Progress | None = None) -> Converted:
    """Encrypt an existing store in place, which is opened without encryption here; then open it with the ring only.

    When it is done, the store says that it is encrypted, and refuses to be opened without encryption. Readers that go
    on meanwhile open it with ``unsealed="read"``. Raises InputError for a ring that hides owners: an
    item cannot change its owner, so that such a store is made by copying.
    """

    async def is_plain(stored: MemoryItem) -> bool:
        return not is_sealed(stored)

    async with _layer_beside(store, ring) as layer:
        done = await _converted(layer, EVERY_ITEM, is_plain, layer.writes.resealed, progress)
        await set_mark(layer.inner, ring, plain=(await kinds_of_items(layer.inner))[1])
        store.wrapper = URL_PREFIX
        return Converted(done, pending=await _erased(store))


async def decrypt(store: Store, ring: KeyRing, *, progress: Progress | None = None) -> Converted:
    """Decrypt a store in place, which is opened without encryption here. Items of forgotten users stay as they are."""
    async with _layer_beside(store, ring) as layer:

        async def is_readable(stored: MemoryItem) -> bool:
            return is_sealed(stored) and bool(await layer.opener.all_opened([stored]))

        done = await _converted(layer, EVERY_ITEM, is_readable, _unsealed, progress)
        await write_mark(layer.inner, None)
        store.wrapper = None
        return Converted(done)


@asynccontextmanager
async def _layer_beside(store: Store, ring: KeyRing) -> AsyncIterator[EncryptionLayer]:
    """Give a layer of encryption that stands on a store's engine, beside the layers of the store.

    The store is open for the block, which leaves it open or closed, as it was.
    """
    if ring.hide_owners:
        raise InputError(
            "A ring with hide_owners cannot encrypt or decrypt a store in place: an item cannot change its owner. Copy "
            "the store into a new one with 'memoranda copy'.",
            field="hide_owners",
        )
    if layer_of(store, EncryptionLayer) is not None:
        raise InputError("A store is encrypted or decrypted in place through its plain URL.", field="store")
    was_open, types, wrapper = store.is_open, store.item_types, store.wrapper
    # What is sealed is read as built-in types, which need nothing that it says.
    store.item_types, store.wrapper = BUILTIN_TYPES, URL_PREFIX
    try:
        try:
            await store.init()
        finally:
            store.wrapper = wrapper
        layer = EncryptionLayer(store.bottom, store, ring, unsealed="read", types=lambda: types)
        await layer.admit(store.wrapper_mark)
        yield layer
    finally:
        store.item_types = types
        if not was_open:
            await store.close()


async def _unsealed(
    items: Sequence[MemoryItem], versions: Sequence[int], expected: Sequence[int]
) -> Sequence[MemoryItem]:
    return [item.model_copy(update={"version": before}) for item, before in zip(items, expected, strict=True)]


async def _converted(
    layer: EncryptionLayer,
    wanted: Filter,
    is_due: Due,
    convert: Convert,
    progress: Progress | None,
) -> int:
    done = 0
    hides = Capability.DELETE in layer.capabilities
    total = await layer.inner.count(items_where(wanted, deleted=hides))
    for _ in range(_ROUNDS):
        due = [each.id async for each in layer.all_stored(wanted) if await is_due(each)]
        if not due:
            break
        for start in range(0, len(due), _ITEMS_PER_WRITE):
            done += await _convert_some(layer, due[start : start + _ITEMS_PER_WRITE], convert)
            if progress is not None:
                progress(min(done, total), total)
    return done


async def _convert_some(layer: EncryptionLayer, ids: Sequence[str], convert: Convert) -> int:
    held = await layer.writes.held(ids)
    live = {stored.id for stored in await layer.inner.read(items_of_ids(list(held)))}
    opened = {item.id: item for item in await layer.opener.all_opened(list(held.values()))}
    shown = [opened[each] for each in ids if each in opened and each in live]
    done = await _compare_and_set(layer, shown, convert)
    for item in [opened[each] for each in ids if each in opened and each not in live]:
        (stored,) = await convert([item], [item.version + 1], [0])
        guard = Expected(Filter(archived=None, further=(FieldEquals("id", item.id),)), None)
        with suppress(ConflictError):  # It was restored or added meanwhile: the next round finds it.
            await layer.inner.write(Write([stored], hidden=frozenset({item.id}), expected=guard))
            done += 1
    return done


async def _compare_and_set(layer: EncryptionLayer, items: Sequence[MemoryItem], convert: Convert) -> int:
    if not items:
        return 0
    versions = [item.version for item in items]
    stored: Sequence[MemoryItem] = await convert(items, [each + 1 for each in versions], versions)
    try:
        await layer.inner.write(Write(stored, None, compared=True))
    except VersionConflictError:
        if len(items) == 1:
            return 0
        middle = len(items) // 2  # Another writer has changed one of them: the others are done.
        return await _compare_and_set(layer, items[:middle], convert) + await _compare_and_set(
            layer, items[middle:], convert
        )
    return len(items)


async def _erased(store: Store) -> str:
    """Remove remaining clear text from the engine, and return why that is not finished; empty if it is.

    Engines erase what was purged, so that one item is added and purged.
    """
    if not isinstance(store, Erasing):
        return ""
    passing = MemoryItem(content="")
    await store.bottom.write(Write([passing]))
    await store.purge(passing.id)
    return await store.erase()
