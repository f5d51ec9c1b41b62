"""Requests as values: a query for every reading call, and a write for every other, which layers change on their way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from memoranda.errors import IdConflictError, InputError, TurnConflictError, VersionConflictError
from memoranda.integrity import conversation_of
from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.store.codec import copy_item
from memoranda.store.conditions import Condition, InScope
from memoranda.store.filters import Filter, Page, merge_scope, metadata_matches
from memoranda.store.owners import Reach
from memoranda.store.protocol import SearchMode
from memoranda.store.ranked import RankedItem
from memoranda.store.values import NO_RECORDS, Value
from memoranda.trust import replacing_trust, trust_of

T = TypeVar("T")

Form = Literal["items", "payloads", "places", "ranked"]
"""What a query gives: items, their payloads, their places in the order of adding, or items with their scores."""

EVERY_ITEM = Filter(archived=None)
FIRST_PAGE = Page()
AS_ADDED = Page(order="added")


class Ranking(NamedTuple):
    """How items are to be ranked: the question, and by what means."""

    text: str
    mode: SearchMode


class Query(NamedTuple, Generic[T]):
    """What a read asks for: the items that match, or those of some ids, a page of them, newest or best first.

    With ``ids`` the items come in any order, whatever the filter; those that are not there are left out. ``deleted``
    includes deleted items where the read allows that. ``shared`` says that nobody will change what is read: an engine
    may give items that it keeps for itself. The type says what the read returns: see :data:`Form`. ``reach`` says
    whether spaces that were granted to a handle are meant, too; what is about one conversation never means them.
    ``staying`` asks for the older items beyond the page as well that every window shows, system items and summaries:
    they come behind it. Only an engine that ``reads_staying`` is asked for them, in the order of adding.
    ``beside`` are further scopes for a ranking, each ranked by itself: the best of all come back, as
    :func:`memoranda.store.ranked.best_of_all` puts them together. Only an engine that ``ranks_together`` is given them.
    """

    wanted: Filter = EVERY_ITEM
    page: Page = FIRST_PAGE
    ids: Sequence[str] | None = None
    deleted: bool = False
    ranking: Ranking | None = None
    form: Form = "items"
    reach: Reach = "own"
    shared: bool = False
    staying: bool = False
    beside: tuple[Filter, ...] = ()

    def also(self, *conditions: Condition) -> Query[T]:
        """Return this query with further conditions."""
        return self._replace(wanted=self.wanted.also(*conditions))


def items_where(
    wanted: Filter,
    page: Page = FIRST_PAGE,
    *,
    deleted: bool = False,
    reach: Reach = "own",
    shared: bool = False,
    staying: bool = False,
) -> Query[MemoryItem]:
    """Return the query of a page of the items that match."""
    return Query(wanted, page, deleted=deleted, reach=reach, shared=shared, staying=staying)


def items_of_ids(ids: Sequence[str], reach: Reach = "own") -> Query[MemoryItem]:
    """Return the query of the items that are shown under these ids."""
    return Query(EVERY_ITEM, FIRST_PAGE, ids, reach=reach)


def payloads_where(wanted: Filter, page: Page) -> Query[Payload]:
    """Return the query of the payloads of a page of the items that match."""
    return Query(wanted, page, form="payloads")


def best_of(text: str, wanted: Filter, limit: int, mode: SearchMode, *, shared: bool = False) -> Query[RankedItem]:
    """Return the query of the items that match and answer a question best, wherever the handle may look."""
    return Query(wanted, Page(limit), ranking=Ranking(text, mode), form="ranked", reach="granted", shared=shared)


def place_of(item_id: str) -> Query[int]:
    """Return the query of the place of an item, deleted or not, in the order of adding; nothing if there is none.

    A place is above 0, stays the same as long as the engine lasts, and is below those of all items that come later.
    """
    return Query(EVERY_ITEM, FIRST_PAGE, (item_id,), True, form="places")


HEAD_ONLY = (*NO_RECORDS, *(Value("memory_type", False, "$ne", kind) for kind in ("summary", "session.record")))
"""What can be the head of a conversation: no record, and no summary, which comes later than what it stands for."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The item that a conversation must still end with: the last added of those that match."""

    conversation: Filter
    head: str | None

    def check(self, found: str | None) -> None:
        """Raise TurnConflictError unless the conversation ends with the item of this id; None for an empty one."""
        if found != self.head:
            raise TurnConflictError(self.head, found)


Packer = Callable[[Sequence[MemoryItem]], list[Any]]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The rows of a large batch, made slice by slice while they are taken, so that few of them are there at a time.

    Each ``slices()`` makes all of them anew. It raises what is wrong with an item once it comes to that one: whoever
    writes rows before the last one is made must be able to take them back. ``count`` is how many there will be.
    """

    slices: Callable[[], AsyncGenerator[list[Any], None]]
    count: int

    async def all(self) -> list[Any]:
        """Return all rows."""
        return [row async for rows in self.slices() for row in rows]


Action = Literal["delete", "restore", "purge", "sweep", "pop", "touch", "mark"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of stored items: of all that match, or of those with some ids that match.

    ``delete`` hides items where the engine has the capability ``delete``, and removes them elsewhere; ``restore`` shows
    them again; ``purge`` removes them for good, hidden ones too, or with ``deleted_only`` those alone. ``sweep`` is a
    purge of what has expired. ``pop`` takes the item that was added last, for good with ``purge``. ``touch`` gives the
    items ``ttl`` seconds from ``now`` on, or their own ttl once more; their versions stay. ``mark`` concerns no item:
    it keeps ``text`` beside them, or with None removes it, for the next :class:`~memoranda.store.backend.Opened`.
    """

    action: Action
    wanted: Filter
    ids: Sequence[str] | None = None
    deleted_only: bool = False
    purge: bool = False
    ttl: float | None = None
    now: str = ""
    text: str | None = None

    def selection(self) -> tuple[Filter, str | None]:
        """Return the filter of the items to change, and the id if only one is named; several ids are in the filter."""
        if self.ids is None:
            return self.wanted, None
        if len(self.ids) == 1:
            return self.wanted, self.ids[0]
        return self.wanted.also(Value("id", False, "$in", list(self.ids))), None

    def narrowed(self, scope: MemoryMetadata) -> Change:
        """Return this change within a scope. Raises InputError when the two contradict each other."""
        return replace(self, wanted=self.wanted.narrowed(scope))


class Written(NamedTuple):
    """The result of a write: how many stored items were removed or changed, and the items that it returns.

    Those are what a compared write has stored, or what was popped; where observers were asked, all that is shown of a
    batch. After a ``sweep``, ``next_expiry`` is when the next of the items that are left expires.
    """

    changed: int = 0
    items: Sequence[MemoryItem] = ()
    next_expiry: str | None = None


NOTHING_CHANGED = Written()


class Write(NamedTuple):
    """A batch: ``deletes`` are removed first, then ``adds`` are stored in their order.

    ``within`` bounds both, as it does in :meth:`memoranda.store.Store.add`; an id to delete that lies outside is
    passed over. ``hidden`` are ids among the adds that arrive deleted. ``keep_created`` leaves a replaced item its
    ``created_at``. ``purge`` removes the deletes for good. With ``fresh`` every id must be new, otherwise those in
    ``new``, or VersionConflictError is raised: ask :meth:`must_be_new`. ``expected`` is checked before anything is
    written, and no other :class:`Expected` write to that conversation may come in between. ``owned`` says that the
    engine may keep the adds without copying them.
    ``packed`` has rows instead of adds, made by :attr:`memoranda.store.engine.Engine.packer`. With ``compared`` each
    item replaces the version that it carries, and is returned; version 0 means that none is shown under its id.
    ``vectors`` are those of the adds, for an engine that keeps some and need not make them. ``now`` is the present
    where items may expire: what has expired by then holds no id, so a write removes it before it takes its place.
    A ``change`` of stored items comes alone.
    """

    adds: Sequence[MemoryItem] = ()
    within: MemoryMetadata | None = None
    hidden: frozenset[str] = frozenset()
    deletes: Sequence[str] = ()
    keep_created: bool = False
    purge: bool = False
    fresh: bool = False
    new: frozenset[str] = frozenset()
    expected: Expected | None = None
    owned: bool = False
    packed: PackedRows | None = None
    compared: bool = False
    vectors: Any = None
    change: Change | None = None
    now: str = ""

    @property
    def is_plain(self) -> bool:
        """True if there is nothing but items to add, as in most writes."""
        return not (
            self.hidden
            or self.deletes
            or self.keep_created
            or self.fresh
            or self.new
            or self.expected
            or self.compared
            or self.vectors is not None
        )

    def must_be_new(self, item_id: str) -> bool:
        """Return True if an add with this id must not replace anything, deleted items included."""
        return self.fresh or item_id in self.new

    @property
    def ids(self) -> list[str]:
        """The ids that the batch writes or deletes, without those of rows that are still to be made."""
        return [*(item.id for item in self.adds), *self.deletes]

    def narrowed(self, scope: MemoryMetadata) -> Write:
        """Return this write bounded by a scope."""
        if self.within is scope and self.expected is None and self.change is None:
            return self
        expected = self.expected
        if expected is not None:
            expected = replace(expected, conversation=expected.conversation.narrowed(scope))
        change = None if self.change is None else self.change.narrowed(scope)
        return self.but(within=merge_scope(self.within, scope), expected=expected, change=change)

    def but(self, **changes: Any) -> Write:
        """Return this write with some fields changed."""
        return self._replace(**changes)


def next_versions(write: Write, stored: Callable[[str], MemoryItem | None]) -> list[MemoryItem]:
    """Return the items to store, each with its next version.

    ``stored`` gives what is held under an id, hidden items included. All conflicts are found before anything is
    changed, those inside the batch too: raises IdConflictError and VersionConflictError.
    """
    seen: dict[str, MemoryItem] = {}
    found = []
    for item in write.adds:
        existing = seen.get(item.id) or stored(item.id)
        next_one = successor(existing, item, write.within, owned=write.owned)
        # Only after its owner is known to be the same: of another's item not even the version is told.
        if existing is not None and write.must_be_new(item.id):
            raise VersionConflictError(item.id, 0, existing.version)
        if write.keep_created and existing is not None:
            next_one.__dict__["created_at"] = existing.created_at
        seen[item.id] = next_one
        found.append(next_one)
    return found


def conversation_filter(items: Sequence[MemoryItem]) -> Filter:
    """Return the filter of the one conversation that the items belong to. Raises InputError where there are several."""
    if len({conversation_of(item) for item in items}) != 1:
        raise InputError(
            "append() takes the items of one turn, at least one, all with the same user_id and session_id.",
            field="items",
        )
    user, session = conversation_of(items[0])
    return Filter(archived=None, further=(_has("user_id", user), _has("session_id", session), *HEAD_ONLY))


def _has(field: str, value: str | None) -> Condition:
    return InScope(field, value) if value is not None else Value(field, False, "$eq", None)


def check_owner(existing: MemoryItem | None, item: MemoryItem, within: MemoryMetadata | None = None) -> None:
    """Raise IdConflictError when the id is held by an item of another user, or by one outside ``within``."""
    if existing is not None and (
        existing.metadata.user_id != item.metadata.user_id or not metadata_matches(within, existing.metadata)
    ):
        raise IdConflictError(item.id)


def check_expected(item: MemoryItem, existing: MemoryItem | None, within: MemoryMetadata | None = None) -> None:
    """Raise the conflict, if any, of a compare-and-set of ``item`` over the live item ``existing``."""
    check_owner(existing, item, within)
    found = None if existing is None else existing.version
    if (found or 0) != item.version:
        raise VersionConflictError(item.id, item.version, found)


def successor(
    existing: MemoryItem | None, item: MemoryItem, within: MemoryMetadata | None = None, *, owned: bool = False
) -> MemoryItem:
    """Return a copy of the item as a store should keep it: with the next version, and no more trusted than before.

    One that is ``owned`` is no copy. ``existing`` is what the store holds under this id, hidden items included. Raises
    IdConflictError when that belongs to another user or lies outside ``within``.
    """
    check_owner(existing, item, within)
    kept = item if owned else copy_item(item)
    kept.__dict__["version"] = 1 if existing is None else existing.version + 1
    if existing is not None:
        keep_trust(existing, kept)
    return kept


def keep_trust(existing: MemoryItem, item: MemoryItem) -> None:
    """Lower the trust of an item to that of the one which it replaces, unless it approves it."""
    stored, new = trust_of(existing), trust_of(item)
    approval = (item.__pydantic_extra__ or {}).get("approval")
    if (trust := replacing_trust(stored, new, approval, existing.version)) != new:
        item.__dict__["trust"] = str(trust)
