"""Rotate data keys, and encrypt or decrypt a store in place: item by item, while others read and write.

Each item is replaced by compare-and-set, so that its version goes up by one and no change of another writer is lost.
All of it can be broken off at any moment, by kill -9 too, and is completed by calling it again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from memoranda.errors import ConflictError, InputError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Erasing, Progress, Store
from memoranda.store.backend import (
    AS_ADDED,
    Expected,
    FieldEquals,
    Filter,
    Write,
    items_of_ids,
    items_where,
)
from memoranda_encrypt.items import Draft
from memoranda_encrypt.keyring import GRACE, KeyRing
from memoranda_encrypt.marks import PREFIX, kinds_of_items, set_mark, write_mark
from memoranda_encrypt.sealing import is_sealed, key_id_of, sealed_text
from memoranda_encrypt.store import EncryptedStore

Due = Callable[[MemoryItem], Awaitable[bool]]
"""Tells if a stored item is to be converted."""

Convert = Callable[[Sequence[MemoryItem], Sequence[int], Sequence[int]], Awaitable[Sequence[MemoryItem]]]
"""Makes stored items of items, for the versions that they will have, instead of those that are expected."""

_AT_ONCE = 100
_ROUNDS = 10
"""How often a store is gone through for items that others have written meanwhile."""


@dataclass(frozen=True, slots=True)
class Converted:
    """How many items were converted, how many keys destroyed, and why something may still be on the disk."""

    items: int
    keys: int = 0
    pending: str = ""


async def rotate(
    store: EncryptedStore, user_id: str | None = None, *, progress: Progress | None = None, grace: float = GRACE
) -> Converted:
    """Give a user, or without one every user, a new data key, and encrypt all items with it.

    A rotation that was begun and not ended is completed instead. Retired keys are destroyed once nothing uses them, an
    hour after their retirement at the earliest: a later rotation does that.
    """
    store._ensure_open()
    store._ensure_writable()
    ring = store.ring
    rotated = ring.begin_rotation(user_id)
    store.forget_decrypted()
    stored_user = None if rotated is None else store.names.owner("user_id", rotated)
    wanted = Filter(metadata=None if stored_user is None else MemoryMetadata(user_id=stored_user), archived=None)

    async def is_old(stored: MemoryItem) -> bool:
        if not is_sealed(stored):
            return False
        (item,) = await store._all_opened([stored], keep=True) or (None,)
        if item is None:
            return False  # Its user was forgotten.
        return key_id_of(sealed_text(stored)) != (await ring.for_writing(item.metadata.user_id)).id

    done = await _converted(store, wanted, is_old, _sealing(store), progress)
    used = [key_id_of(sealed_text(stored)) async for stored in _all_stored(store) if is_sealed(stored)]
    return Converted(done, ring.end_rotation(used, grace=grace))


async def encrypt(inner: Store, ring: KeyRing, *, progress: Progress | None = None) -> Converted:
    """Encrypt an existing store in place. Call it with the inner store; then open it with the ring only.

    When it is done, the store says that it is encrypted, and refuses to be opened without encryption. Readers that go
    on meanwhile open it with ``unsealed="read"``. Raises InputError for a ring that hides owners: an
    item cannot change its owner, so that such a store is made by copying.
    """

    async def is_plain(stored: MemoryItem) -> bool:
        return not is_sealed(stored)

    async with _around(inner, ring) as store:
        done = await _converted(store, Filter(archived=None), is_plain, _sealing(store), progress)
        await set_mark(inner, ring, plain=(await kinds_of_items(inner))[1])
        inner.wrapper = PREFIX
        return Converted(done, pending=await _erased(inner))


async def decrypt(inner: Store, ring: KeyRing, *, progress: Progress | None = None) -> Converted:
    """Decrypt a store in place, with its inner store. Items of forgotten users stay as they are."""
    async with _around(inner, ring) as store:

        async def is_readable(stored: MemoryItem) -> bool:
            return is_sealed(stored) and bool(await store._all_opened([stored]))

        done = await _converted(store, Filter(archived=None), is_readable, _unsealed, progress)
        await write_mark(inner, None)
        inner.wrapper = None
        return Converted(done)


@asynccontextmanager
async def _around(inner: Store, ring: KeyRing) -> AsyncIterator[EncryptedStore]:
    """Put encryption around a store for the block, which leaves the store open or closed, as it was."""
    if ring.hide_owners:
        raise InputError(
            "A ring with hide_owners cannot encrypt or decrypt a store in place: an item cannot change its owner. Copy "
            "the store into a new one with 'memoranda copy'.",
            field="hide_owners",
        )
    was_open, types, wrapper, clock = inner.is_open, inner.item_types, inner.wrapper, inner.clock
    store = EncryptedStore(inner, ring, unsealed="read")
    store.access = inner.access
    try:
        await store.init()
        inner.wrapper = wrapper
        yield store
    finally:
        inner.item_types = types
        inner.clock = clock
        if not was_open:
            await inner.close()


def _sealing(store: EncryptedStore) -> Convert:
    """Return what seals items with the key that new items get."""

    async def convert(
        items: Sequence[MemoryItem], versions: Sequence[int], expected: Sequence[int]
    ) -> Sequence[MemoryItem]:
        drafts = [Draft(item, store.names) for item in items]
        return await store._sealed(drafts, versions, expected)

    return convert


async def _unsealed(
    items: Sequence[MemoryItem], versions: Sequence[int], expected: Sequence[int]
) -> Sequence[MemoryItem]:
    return [item.model_copy(update={"version": before}) for item, before in zip(items, expected, strict=True)]


async def _all_stored(store: EncryptedStore, wanted: Filter | None = None) -> AsyncIterator[MemoryItem]:
    hides = Capability.DELETE in store.capabilities
    async for stored in store.below.stream(items_where(wanted or Filter(archived=None), AS_ADDED, deleted=hides)):
        yield stored


async def _converted(
    store: EncryptedStore,
    wanted: Filter,
    is_due: Due,
    convert: Convert,
    progress: Progress | None,
) -> int:
    """Convert all items that are due, until none is, and return how many they were."""
    done = 0
    hides = Capability.DELETE in store.capabilities
    total = await store.below.count(items_where(wanted, deleted=hides))
    for _ in range(_ROUNDS):
        due = [each.id async for each in _all_stored(store, wanted) if await is_due(each)]
        if not due:
            break
        for start in range(0, len(due), _AT_ONCE):
            done += await _convert_some(store, due[start : start + _AT_ONCE], convert)
            if progress is not None:
                progress(min(done, total), total)
    return done


async def _convert_some(store: EncryptedStore, ids: Sequence[str], convert: Convert) -> int:
    held = await store._held(ids)
    live = {stored.id for stored in await store.below.read(items_of_ids(list(held)))}
    opened = {item.id: item for item in await store._all_opened(list(held.values()))}
    shown = [opened[each] for each in ids if each in opened and each in live]
    done = await _compare_and_set(store, shown, convert)
    for item in [opened[each] for each in ids if each in opened and each not in live]:
        (stored,) = await convert([item], [item.version + 1], [0])
        guard = Expected(Filter(archived=None, further=(FieldEquals("id", item.id),)), None)
        with suppress(ConflictError):  # It was restored or added meanwhile: the next round finds it.
            await store.below.write(Write([stored], hidden=frozenset({item.id}), expected=guard))
            done += 1
    return done


async def _compare_and_set(store: EncryptedStore, items: Sequence[MemoryItem], convert: Convert) -> int:
    if not items:
        return 0
    versions = [item.version for item in items]
    stored: Sequence[MemoryItem] = await convert(items, [each + 1 for each in versions], versions)
    try:
        await store.below.write(Write(stored, None, compared=True))
    except VersionConflictError:
        if len(items) == 1:
            return 0
        middle = len(items) // 2  # Another writer has changed one of them: the others are done.
        return await _compare_and_set(store, items[:middle], convert) + await _compare_and_set(
            store, items[middle:], convert
        )
    return len(items)


async def _erased(inner: Store) -> str:
    """Remove what the engine still has of the clear text, and return why that is not done yet; empty if it is.

    Engines erase what was purged, so that one item is added and purged.
    """
    if not isinstance(inner, Erasing):
        return ""
    passing = MemoryItem(content="")
    await inner.bottom.write(Write([passing]))
    await inner.purge(passing.id)
    return await inner.erase()
