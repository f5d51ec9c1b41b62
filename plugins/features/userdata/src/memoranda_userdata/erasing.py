"""Erase all traces of a user, or take back what was made from an item or an origin.

A derived item names the items it was made from: see :mod:`memoranda.store.lineage`. What is taken back is deleted and
can be restored; what :func:`memoranda.store.lineage.erase` erases is purged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, now_text, sources_of
from memoranda.store import Capability, Erasing
from memoranda.store.backend import moment_text
from memoranda.store.lineage import archived_as, changed_item, hidden_by, stood_for_by_missing
from memoranda.store.owners import DIRECTORY, space_of
from memoranda.trust import origin_of

if TYPE_CHECKING:
    from memoranda.store import Moment, Store


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
class ErasureReceipt:
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


async def forget(store: Store, user_id: str) -> ErasureReceipt:
    """Erase everything a store holds of a user for good, search again in every way, and return a receipt.

    Deleted and archived items and summaries go too. What other users' items say about the user stays. Where each user
    has keys of their own, they are destroyed, which makes every backup of the user unreadable. A user that the store
    does not know has a receipt with ``found == 0``; :func:`similar_users` helps with a mistyped id. If the receipt is
    not ``complete``, ``left`` or ``pending`` says why: call this again once that is settled.
    """
    receipt = await count_user(store, store.label, user_id)
    await erase_user(store, receipt)
    return receipt


async def count_user(store: Store, name: str, user: str) -> ErasureReceipt:
    """Return a receipt that says how much a store of this name holds of a user; nothing is removed yet.

    Raises InputError for the owner of all grants, who is no user: what was made by the grants would stay.
    """
    if user == DIRECTORY:
        raise InputError(
            f"{DIRECTORY!r} has the grants of everybody. Revoke them, or forget a user or a space.", field="user_id"
        )
    owner = MemoryMetadata(user_id=user)
    found = await store.count(metadata=owner)
    hides = Capability.DELETE in store.capabilities
    everything = await store.count(metadata=owner, include_deleted=True) if hides else found
    method = "purge" if Capability.PURGE in store.capabilities else "clear"
    holder = next((layer for layer in store.layers if isinstance(layer, HoldsUnreadable)), None)
    unreadable = 0 if holder is None else await holder.count_unreadable(user)
    granted = await _grants(store, user)
    return ErasureReceipt(user, name, found, everything - found, method, unreadable=unreadable, grants=granted)


async def erase_user(store: Store, receipt: ErasureReceipt) -> None:
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


@dataclass(frozen=True, slots=True)
class Revocation:
    """What was taken back: the ids of the items asked for, of all that went, and of those that are shown again.

    It is plain data: keep ``as_json()`` somewhere, and :func:`undo_revocation` works in another process as well.
    """

    roots: tuple[str, ...]
    taken: tuple[str, ...]
    shown_again: dict[str, str] = field(default_factory=dict)
    """The ids of archived items that are shown again, each with the summary that stood for it."""
    by: str = ""
    at: str = field(default_factory=now_text)

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Return the receipt of a document that :meth:`as_json` made."""
        lists = {name: tuple(document[name]) for name in ("roots", "taken")}
        return cls(**{**document, **lists})


async def descendants(store: Store, item: MemoryItem | str) -> list[MemoryItem]:
    """Return everything that was made from an item, at any remove, oldest first.

    All items of its user are read; in a store with spaces, those of all users and spaces that the store or handle
    reaches. An id that the store does not have, such as a purged item's, is looked for among all of these, too.
    """
    found = await store.get(item) if isinstance(item, str) else item
    root = item if isinstance(item, str) else item.id
    everything = await _of_user(store, found)
    return _derived(everything, {root})


async def find_revoked(
    store: Store,
    *,
    origin: str | None = None,
    item: MemoryItem | str | None = None,
    since: Moment | None = None,
    by: str = "",
) -> Revocation:
    """Return what :func:`revoke` would take back; nothing is changed until it is given to :func:`take_back`."""
    if origin is None and item is None and since is None:
        raise InputError("revoke() needs an origin, an item or a time.", field="origin")
    item_id = item.id if isinstance(item, MemoryItem) else item
    earliest = "" if since is None else moment_text(since, "since")
    everything = [found async for found in store.scan()]
    roots = {
        found.id
        for found in everything
        if (origin is None or origin_of(found) == origin)
        and (item_id is None or found.id == item_id)
        and found.created_at >= earliest
        and found.memory_type != "branch"
        and found.metadata.user_id != DIRECTORY
    }
    gone = [found.id for found in everything if found.id in roots]
    gone += [found.id for found in _derived(everything, roots) if found.id not in roots]
    return Revocation(tuple(sorted(roots)), tuple(gone), hidden_by(everything, set(gone)), by)


async def revoke(
    store: Store,
    *,
    origin: str | None = None,
    item: MemoryItem | str | None = None,
    since: Moment | None = None,
    by: str = "",
) -> Revocation:
    """Take back items and everything that was made from them, and return a receipt for :func:`undo_revocation`.

    Name an ``origin``, an ``item``, a time ``since`` which items were created, or several of them together. What is
    taken back is deleted: no read shows it. Items that only a deleted summary stood for are shown again. Needs the
    capability ``delete``; ``by`` says who asked for it. Grants of spaces stay: they are taken back by themselves.
    """
    receipt = await find_revoked(store, origin=origin, item=item, since=since, by=by)
    await take_back(store, receipt)
    return receipt


async def take_back(store: Store, found: Revocation) -> None:
    """Take back what :func:`find_revoked` found. If it is broken off, calling it again completes it."""
    await _show_again(store, found.shown_again)
    for each in found.taken:
        await store.delete(each)


async def undo_revocation(store: Store, receipt: Revocation) -> int:
    """Bring back what :func:`revoke` took and return how many items that were; what was purged since stays gone."""
    restored = sum([await store.restore(item_id) for item_id in receipt.taken])
    for item_id, summary in receipt.shown_again.items():
        if await store.get(summary) is not None:
            await changed_item(store, item_id, partial(archived_as, before=None, by=summary))
    return restored


async def _of_user(store: Store, item: MemoryItem | None) -> list[MemoryItem]:
    shares = store.bounds is None and await store.count(metadata=MemoryMetadata(user_id=DIRECTORY)) > 0
    if item is None or shares:
        return [found async for found in store.scan()]
    user = item.metadata.user_id
    if user is None:
        return [found async for found in store.scan(where={"user_id": {"$eq": None}})]
    return [found async for found in store.scan(metadata=MemoryMetadata(user_id=user))]


def _derived(everything: Collection[MemoryItem], roots: Collection[str]) -> list[MemoryItem]:
    made: dict[str, list[str]] = {}
    for item in everything:
        for source in sources_of(item):
            made.setdefault(source, []).append(item.id)
    for summary, ids in stood_for_by_missing(everything).items():
        for item_id in ids:
            made.setdefault(item_id, []).extend(made.get(summary, ()))
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        for item_id in made.get(waiting.pop(), ()):
            if item_id not in found:
                found.add(item_id)
                waiting.append(item_id)
    return [item for item in everything if item.id in found]


async def _show_again(store: Store, hidden: Mapping[str, str]) -> None:
    for item_id, summary in hidden.items():
        await changed_item(store, item_id, partial(archived_as, before=summary, by=None))
