"""The messages of one session: their order, their head, and which of them a model may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from memoranda.errors import TurnConflictError, VersionConflictError
from memoranda.integrity import linked_by_calls, remnants, shown_together, whole_groups
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, new_id
from memoranda.loops import filter_weight, offload
from memoranda.store import EVERYTHING, Capability, Store
from memoranda.store.records import check_record
from memoranda.trust import check_trust, trust_of
from memoranda.windowing import as_said
from memoranda_messages import results_behind_calls
from memoranda_messages.sessions.records import RECORD, finished, write_records

_BEFORE = 64
"""How many items before the first one shown are read to find groups that it belongs to."""

ANYWHERE: Any = object()
"""The default of ``after``, since None there stands for an empty conversation."""

_MESSAGES = {"memory_type": {"$ne": RECORD}}
_SUMMARY = "summary"


class Fence(Protocol):
    """What a conversation needs of a fence."""

    def apply(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, oldest first, with those that are not trusted as quoted data."""


class Conversation:
    """The items of one session: ``Conversation(store, "chat-1", user_id="ada", app="shop")``.

    - ``store`` is any open store or handle. ``user_id`` and ``app`` (the items' ``agent_id``) bind it further; a store
      whose handle is bound to another user refuses. Without any of them, the session id alone says whose it is.
    - Items come in the order of adding. Several processes may write to one session.
    - Every write has finished or failed when its call ends, even if that is cancelled.
    - ``ttl`` is how many seconds an item lives. A group of items is shown until the first of them expires.
    - ``min_trust`` leaves out items that are trusted less, and the calls whose results they are. ``fence``, such as
      ``memoranda_guard.Fence()``, shows what is not trusted as quoted data. Both apply after the limit.
    - ``receipt=True``, or a ``memoranda_receipts.Recording``, lets :meth:`record` store what a model is shown.

    :meth:`read` returns everything, for a framework that resumes. :meth:`shown` returns what a model may be shown.
    Items that were compacted are archived; their summary comes instead, before what was kept.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        user_id: str | None = None,
        app: str | None = None,
        ttl: float | None = None,
        min_trust: str | None = None,
        fence: Fence | None = None,
        receipt: object = None,
    ) -> None:
        named = {"session_id": session_id, "user_id": user_id, "agent_id": app}
        self.session_id = session_id
        self.store = store.own  # A conversation is nobody else's, whatever spaces the handle reaches.
        self.items = self.store.scoped(**{name: value for name, value in named.items() if value is not None})  # type: ignore[arg-type]  # texts
        self._ttl = ttl
        self._min_trust = None if min_trust is None else check_trust(min_trust, "min_trust")
        self._fence = fence
        self._receipt = receipt
        self._unfenced: dict[str, MemoryItem] = {}

    def __repr__(self) -> str:
        return f"Conversation({self.session_id!r}, {self.items!r})"

    async def read(self, limit: int | None = None, *, since: str | None = None) -> list[MemoryItem]:
        """Return the conversation, oldest first: all of it, or exactly the newest ``limit`` items.

        ``since`` (ISO-8601) leaves out what was created before. A turn that is only half written is part of it. Items
        whose group has expired in part are not.
        """
        most = EVERYTHING if limit is None or limit < 0 else min(limit, EVERYTHING)
        items = await self._newest(most, since)
        is_all = since is None and len(items) < most
        if self._ttl is not None or _may_have_ended(items, is_all=is_all):
            whole = items if is_all else await self._newest(EVERYTHING)
            lasting = await offload(filter_weight(len(whole)), self._unexpired, whole)
            if since is not None:
                lasting = [item for item in lasting if item.created_at >= since]
            items = lasting[max(len(lasting) - most, 0) :]
        return self.trusted(items)

    async def shown(self, limit: int | None = None) -> list[MemoryItem]:
        """Return what a model may be shown of the newest ``limit`` items, oldest first.

        Every call has its results, which stand right behind it, and every result its call: what a killed process left
        half written is left out, and so is a group that the limit would cut.
        """
        if limit is None or limit < 0 or limit + _BEFORE > EVERYTHING:
            items = whole_groups(await self.read())
        else:
            items = await self.uncut(limit)
            items = self.trusted(whole_groups(items))
        return items if _in_place(items) else results_behind_calls(items)

    async def uncut(self, limit: int) -> list[MemoryItem]:
        """Return those of the newest items whose groups the limit does not cut, and every summary.

        Calls may still wait for their results.
        """
        items = await self._newest(limit + _BEFORE)
        is_all = len(items) < limit + _BEFORE
        if not is_all:
            others = await self.items.search(mode="substring", memory_type=_SUMMARY, limit=EVERYTHING, order="added")
            items = as_said([*others[::-1], *(item for item in items if item.memory_type != _SUMMARY)])
        messages = [at for at, item in enumerate(items) if item.memory_type != _SUMMARY]
        hidden = {*messages[: max(len(messages) - limit, 0)], *self._left(items, is_all=is_all)}
        if not is_all:
            hidden |= linked_by_calls(items).orphans  # Their calls may lie further back, or nowhere.
        return _without(items, hidden)

    async def head(self) -> str | None:
        """Return the id of the item that was added last, which ``append(after=…)`` takes; None if there is none."""
        return await self.items.head()

    async def append(
        self,
        items: Iterable[MemoryItem],
        *,
        after: str | None = ANYWHERE,
        records: Sequence[MemoryItem] = (),
    ) -> None:
        """Store items at the end, all or none. They are the conversation's own from then on: it stamps and groups them.

        - ``after`` is the :meth:`head` that they follow, None for a conversation that is empty. If it has gone on
          meanwhile, TurnConflictError is raised and nothing is stored. Without it, items come in the order of adding.
        - ``records`` (see :meth:`Records.item`) are replaced together with it, all or none. If one of them has another
          version by now, or a new item's id exists, VersionConflictError is raised and nothing is stored.
        """
        batch = _stamped(items, self.items.scope)
        _tie_groups(batch)
        if records:
            await finished(self._append_with_records(batch, records, after))
        elif after is ANYWHERE:
            await finished(self.items.add_many(batch, ttl=self._ttl))
        elif batch:
            await finished(self.items.append(batch, after=after, ttl=self._ttl))

    async def pop(self) -> MemoryItem | None:
        """Remove and return the newest item, for good if the store can; None if there is none.

        Concurrent callers get different items. A summary is never returned: it stands for items that are archived.
        """
        return await finished(self._pop())

    async def replace(self, items: Iterable[MemoryItem], *, archived: bool | None = None) -> None:
        """Store items instead of all that the conversation has, all or none, for good if the store can.

        They are the conversation's own, as those of :meth:`append` are.
        With ``archived``, only items that are archived, or only those that are not, are replaced.
        """
        batch = _stamped(items, self.items.scope)
        _tie_groups(batch)
        kept = {item.id for item in batch}
        stored = await self.items.search(archived=archived, where=_MESSAGES, limit=EVERYTHING, mode="substring")
        deletes = [item.id for item in stored if item.id not in kept]
        purge = Capability.PURGE in self.items.capabilities
        await finished(self.items.apply(adds=batch, deletes=deletes, ttl=self._ttl, purge=purge))

    async def clear(self) -> None:
        """Remove every item of the session, archived ones too, for good if the store can. Records stay."""
        if Capability.PURGE in self.items.capabilities:
            await finished(self.items.purge(where=_MESSAGES))
        else:
            await finished(self.items.clear(where=_MESSAGES))

    def trusted(self, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the items that are trusted enough, with those that are not quite between fences."""
        if self._min_trust is not None:
            items = whole_groups([item for item in items if trust_of(item) >= self._min_trust])
        if self._fence is None:
            return items
        self._unfenced = {item.id: item for item in items}
        return self._fence.apply(items)

    async def record(self, items: Sequence[MemoryItem], limit: int | None = None) -> None:
        """Record items that were read as what a model is shown, if a receipt or an observer of the store asks for it.

        An adapter calls it where a framework reads for a model.
        """
        sources = [("conversation", self._unfenced.get(item.id, item)) for item in items]
        asked = {"limit": limit, "min_trust": self._min_trust}
        owner = self.items.bounds
        await self.items.shown(items, receipt=self._receipt, kind="session", owner=owner, asked=asked, sources=sources)

    async def _append_with_records(
        self, batch: Sequence[MemoryItem], records: Sequence[MemoryItem], after: str | None
    ) -> None:
        """Store items and records by one compare-and-set. The records tell two writers apart, and the head is read."""
        if after is not ANYWHERE and (found := await self.items.head()) != after:
            raise TurnConflictError(after, found)
        if self._ttl is not None:
            batch = [item.model_copy(update={"ttl": self._ttl}) for item in batch]
        for item in batch:
            check_record(item)  # A message is none, and what is written with records would be taken for one.
        await write_records(self.store, [*records, *batch])

    async def _pop(self) -> MemoryItem | None:
        """Remove the newest item, and shrink its group: the others are not left over from an expired item."""
        purge = Capability.PURGE in self.items.capabilities
        popped = await self.items.pop(where={"memory_type": {"$ne": _SUMMARY}}, purge=purge)
        while popped is not None and popped.group_size:
            left = await self._rest_of_group(popped)
            for item in left:
                item.group_size = None
            try:
                await self.items.update_many(left)
            except VersionConflictError:
                continue  # Another process removed one of them.
            break
        return popped

    async def _rest_of_group(self, popped: MemoryItem) -> list[MemoryItem]:
        """Return the other items of a group whose newest item was popped; they mostly stand right before it."""
        left: list[MemoryItem] = []
        for most in ((popped.group_size or 0) + _BEFORE, EVERYTHING):
            items = await self._newest(most)
            left = [item for item in items if item.group_size and item.group == popped.group]
            if len(left) + 1 >= (popped.group_size or 0):
                break
        return left

    async def _newest(self, most: int, since: str | None = None) -> list[MemoryItem]:
        """Return the newest items, oldest first. A summary comes where that stood which it stands for."""
        found = await self.items.search(mode="substring", limit=min(most, EVERYTHING), order="added", since=since)
        if len(found) == most and any(item.memory_type == _SUMMARY for item in found):
            found = await self.items.search(mode="substring", limit=EVERYTHING, order="added", since=since)
        return as_said(found[::-1])[-most:] if most else []

    def _unexpired(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return a whole conversation without the rest of groups that have expired in part."""
        return _without(items, self._left(items, is_all=True))

    def _left(self, items: Sequence[MemoryItem], *, is_all: bool) -> set[int]:
        """Return the positions of items whose group has expired in part, or begins before what was read."""
        left = remnants(items)
        if self._ttl is not None or (is_all and left) or any(item.expires_at is not None for item in items):
            left |= _unpaired(items)
        return left


def _stamped(items: Iterable[MemoryItem], scope: MemoryMetadata) -> list[MemoryItem]:
    """Give items the scope's ids where they name none. Raises nothing: the handle refuses other owners."""
    stamped = list(items)
    given = bound = None
    for item in stamped:
        if item.metadata is not given:  # The items of a turn mostly share it.
            given = item.metadata
            missing = [name for name in SCOPE_FIELDS if getattr(given, name) is None]
            ids = {name: value for name in missing if (value := getattr(scope, name)) is not None}
            bound = given.model_copy(update=ids) if ids else None
        if bound is not None:
            item.__dict__["metadata"] = bound
    return stamped


def _tie_groups(batch: Sequence[MemoryItem]) -> None:
    """Let items that belong together by calls say how many they are, so that a missing one is noticed later."""
    for together in shown_together(batch):
        group = next((batch[at].group for at in together if batch[at].group), None) or new_id()
        for at in together:
            batch[at].__dict__.update(group=group, group_size=len(together))


def _in_place(items: Sequence[MemoryItem]) -> bool:
    """Return True if nothing stands between calls and their results but calls made at once and other results."""
    return all(
        items[at].memory_type == "ai" or items[at].memory_type == items[at + 1].memory_type == "tool"
        for link in linked_by_calls(items).links
        for at in range(link.caller, link.result)
    )


def _unpaired(items: Sequence[MemoryItem]) -> set[int]:
    """Return the positions of results without a call, and of calls whose result can no longer come."""
    linked = linked_by_calls(items)
    last = _last_question(items)
    return linked.orphans | {at for at, count in linked.missing.items() if count and at < last}


def settled(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items of a conversation without what earlier turns left half written.

    Before the last message of a person, a call without all its results is left out with its group, and so is a result
    without its call. The turn that is under way is returned as it is: its results may still come.
    """
    last = _last_question(items)
    return _without(items, {at for at in _unpaired(items) if at < last})


def _last_question(items: Sequence[MemoryItem]) -> int:
    """Return the position of the last message of a person; 0 if there is none."""
    return max((at for at, item in enumerate(items) if item.memory_type == "human"), default=0)


def _without(items: Sequence[MemoryItem], hidden: set[int]) -> list[MemoryItem]:
    """Return the items without these and their groups."""
    for together in shown_together(items) if hidden else ():
        if not hidden.isdisjoint(together):
            hidden.update(together)
    return [item for position, item in enumerate(items) if position not in hidden]


def _may_have_ended(items: Sequence[MemoryItem], *, is_all: bool) -> bool:
    """Return True if part of a session may have expired: an item has a lifetime, or a group lacks an item.

    A limit cuts groups as well, so the latter counts only if ``is_all`` of the session is given.
    """
    return any(item.expires_at for item in items) or (is_all and bool(remnants(items)))
