"""What an encrypted store keeps, as its engine has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from memoranda import MemoryItem
from memoranda.store import Store
from memoranda.store.backend import EVERY_ITEM, Change, Write, items_of_ids, items_where
from memoranda.store.layers import layer_of
from memoranda_encrypt import EncryptionLayer


def encryption(store: Store) -> EncryptionLayer:
    """Return the layer that encrypts what the store keeps."""
    layer = layer_of(store, EncryptionLayer)
    assert layer is not None
    return layer


async def stored(store: Store, item_id: str) -> MemoryItem:
    """Return an item as the engine has it."""
    (found,) = await store.bottom.read(items_of_ids([item_id]))
    return found


def all_stored(store: Store, *, deleted: bool = False) -> AsyncGenerator[MemoryItem, None]:
    """Yield all items as the engine has them."""
    return store.bottom.stream(items_where(EVERY_ITEM, deleted=deleted))


async def put(store: Store, *items: MemoryItem) -> None:
    """Store items as they are, beside the encryption."""
    await store.bottom.write(Write(list(items)))


async def purge(store: Store, item_id: str) -> None:
    """Purge an item without the encryption."""
    await store.bottom.write(Write(change=Change("purge", EVERY_ITEM, [item_id])))
