"""Erase all traces of a user, and search again to prove it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from memoranda.items import MemoryMetadata, now_text
from memoranda.store import Capability, Erasing
from memoranda.store.spaces import DIRECTORY, space_of

if TYPE_CHECKING:
    from memoranda.store import Store


@runtime_checkable
class KeyPerUser(Protocol):
    """A layer that encrypts items with keys of their user, such as that of memoranda-encrypt."""

    async def destroy_keys(self, user_id: str) -> int:
        """Destroy the keys of a user, for good, and return how many they were."""
        ...


@runtime_checkable
class HoldsUnreadable(Protocol):
    """A layer that may not show all items below it, such as those of a forgotten user in a restored backup."""

    async def count_unreadable(self, user_id: str) -> int:
        """Return how many items of a user are held and cannot be shown, deleted ones too."""
        ...


@dataclass(slots=True)
class Receipt:
    """What a store held of a user, what was removed, and what a second search still found.

    ``keys_destroyed`` is the number of the user's keys that were destroyed, so that no backup can be read either; None
    if the store is not encrypted. ``unreadable`` counts items that no search shows, since their key is gone already: a
    restored backup brings back such items. ``grants`` are the spaces that were granted to the user, or to whom a
    forgotten space was granted; the grants are removed, and the user's publications go with their originals.
    """

    user_id: str
    store: str
    found: int
    deleted: int
    method: str
    removed: int = 0
    left: dict[str, int] = field(default_factory=dict)
    pending: str = ""
    keys_destroyed: int | None = None
    unreadable: int = 0
    grants: list[str] = field(default_factory=list)
    at: str = field(default_factory=now_text)

    @property
    def held(self) -> int:
        """How many items the store held of the user, shown or not."""
        return self.found + self.deleted + self.unreadable

    @property
    def complete(self) -> bool:
        """True if no search finds anything, and nothing waits to be erased from the disk."""
        return not any(self.left.values()) and not self.pending

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a document."""
        return {**asdict(self), "complete": self.complete}


async def forget(store: Store, user_id: str) -> Receipt:
    """Erase everything a store holds of a user for good, search again in every way, and return a receipt.

    Deleted and archived items and summaries go too. What other users' items say about the user stays. Where each user
    has keys of their own, they are destroyed, which makes every backup of the user unreadable. A user that the store
    does not know has a receipt with ``found == 0``; :func:`similar_users` helps with a mistyped id. If the receipt is
    not ``complete``, ``left`` or ``pending`` says why: call this again once that is settled.
    """
    receipt = await count_user(store, store.label, user_id)
    await erase_user(store, receipt)
    return receipt


async def count_user(store: Store, name: str, user: str) -> Receipt:
    """Return a receipt that says how much a store of this name holds of a user; nothing is removed yet."""
    owner = MemoryMetadata(user_id=user)
    found = await store.count(metadata=owner)
    hides = Capability.DELETE in store.capabilities
    everything = await store.count(metadata=owner, include_deleted=True) if hides else found
    method = "purge" if Capability.PURGE in store.capabilities else "clear"
    holder = next((layer for layer in store.layers if isinstance(layer, HoldsUnreadable)), None)
    unreadable = 0 if holder is None else await holder.count_unreadable(user)
    granted = await _grants(store, user)
    return Receipt(user, name, found, everything - found, method, unreadable=unreadable, grants=granted)


async def erase_user(store: Store, receipt: Receipt) -> None:
    """Erase what a store holds of the user of a receipt, search again, and complete the receipt."""
    owner = MemoryMetadata(user_id=receipt.user_id)
    remove_all = store.purge if receipt.method == "purge" else store.clear
    if receipt.held:
        receipt.removed = await remove_all(metadata=owner)
    directory = _directory_of(receipt.user_id)
    if await store.count(metadata=directory):
        await remove_all(metadata=directory)
    keys = next((layer for layer in store.layers if isinstance(layer, KeyPerUser)), None)
    if keys is not None:
        receipt.keys_destroyed = (receipt.keys_destroyed or 0) + await keys.destroy_keys(receipt.user_id)
    receipt.left = await _traces(store, owner)
    receipt.pending = await store.erase() if isinstance(store, Erasing) else ""
    receipt.at = now_text()


def _directory_of(user: str) -> MemoryMetadata:
    """Return where the directory of spaces has what concerns a user, or a space."""
    owner = MemoryMetadata(user_id=user)
    space = space_of(owner)
    if space is not None:
        return MemoryMetadata(user_id=DIRECTORY, task_id=space)
    return MemoryMetadata(user_id=DIRECTORY, session_id=f"user:{user}")


async def _grants(store: Store, user: str) -> list[str]:
    """Return the spaces that are granted to a user, or to whom a space is granted."""
    other = "session_id" if space_of(MemoryMetadata(user_id=user)) else "task_id"
    found = store.scan(metadata=_directory_of(user), memory_type="grant", archived=True)
    return sorted({str(getattr(item.metadata, other)) async for item in found})


async def _traces(store: Store, owner: MemoryMetadata) -> dict[str, int]:
    """Look for the user in every way that finds items, and return how many each still finds."""
    left = {
        "counted": await store.count(metadata=owner),
        "scanned": sum([1 async for _ in store.scan(metadata=owner)]),
        "searched": len(await store.search(metadata=owner, limit=1000, mode="substring", archived=None)),
    }
    if Capability.DELETE in store.capabilities:
        left["deleted"] = sum([1 async for _ in store.scan(metadata=owner, include_deleted=True)]) - left["scanned"]
    if owner.user_id is not None:
        left["granted"] = await store.count(metadata=_directory_of(owner.user_id))
    holder = next((layer for layer in store.layers if isinstance(layer, HoldsUnreadable)), None)
    if holder is not None and owner.user_id is not None:
        left["unreadable"] = await holder.count_unreadable(owner.user_id)
    for mode in (Capability.TEXT, Capability.SEMANTIC, Capability.HYBRID):
        if mode in store.capabilities:
            name: Any = mode.value
            ranked = await store.search_ranked(query="the", metadata=owner, limit=1000, mode=name, archived=None)
            left[mode.value] = len(ranked)
    return left
