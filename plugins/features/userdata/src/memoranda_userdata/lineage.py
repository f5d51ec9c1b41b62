"""What was made from what: find everything derived from an item or an origin, and take it back.

A derived item names the items it was made from: see :mod:`memoranda.store.lineage`. What is taken back is deleted and
can be restored; what :func:`memoranda.store.lineage.erase` erases is purged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, now_text, sources_of
from memoranda.store.backend import moment_text
from memoranda.store.lineage import archived_as, changed_item, hidden_by
from memoranda.store.spaces import DIRECTORY
from memoranda.trust import origin_of

if TYPE_CHECKING:
    from memoranda.store import Moment, Store


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
    capability ``delete``; ``by`` says who asked for it.
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
    """Return the items that were made from the roots, or from others that were, in their order."""
    made: dict[str, list[str]] = {}
    for item in everything:
        for source in sources_of(item):
            made.setdefault(source, []).append(item.id)
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
