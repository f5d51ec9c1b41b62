"""Branches: sessions that share the past of another without copying it.

A forked session is a record, which is an item, and its id tells that it is one: sessions whose ids do not begin so are
never looked up. See :class:`memoranda.items.BranchMemory`.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store.capabilities import Capability
from memoranda.store.codec import copy_item
from memoranda.store.conditions import FieldEquals, InBranch
from memoranda.store.engine import Engine
from memoranda.store.filters import Filter
from memoranda.store.forked import MARK
from memoranda.store.pages import Page
from memoranda.store.values import Value
from memoranda.store.writes import Write


class Branching(Engine):
    """What a store promises of sessions that are forked, and what a backend with the capability ``fork`` calls."""

    async def fork(self, session_id: str, *, at: str) -> str:
        """Return a new session that shares the past of a session up to the item ``at``, that one included.

        Nothing is copied, and the cost does not grow with the length. Reading the new session shows the past and what
        is added to it; each side goes on by itself. An item of the past is one item: whoever updates, deletes or purges
        it by its id does so for both. Clearing or purging either session leaves the other what it shows; forgetting the
        user takes both. Raises InputError if the session does not show such an item. Capability ``fork``.
        """
        self._ensure_open()
        self._require(Capability.FORK)
        check_text(session_id, "session_id")
        check_text(at, "at")
        scope = MemoryMetadata(session_id=session_id)
        wanted = self._filter(metadata=scope, archived=None).also(FieldEquals("id", at))
        found = await self._search(wanted, Page(1))
        if not found:
            raise InputError("The session shows no such item to fork at.", field="at")
        item, branch = found[0], f"{MARK}{uuid.uuid4().hex}"
        record = BranchMemory(
            id=branch,
            metadata=MemoryMetadata(user_id=item.metadata.user_id, session_id=branch),
            archived_by=branch,
            parent=session_id,
            at=at,
            at_created=item.created_at,
        )
        async with self._alone():
            await self._apply(Write([self._prepared(record)], fresh=True))
        return branch

    async def _place(self, item_id: str) -> int | None:
        """Return the place of an item in the order of adding, deleted or not; None if there is none."""
        raise NotImplementedError

    async def _rehome(self, wanted: Filter, upto: int, session_id: str) -> int:
        """Give the items that match, up to a place, to another session, as they are, and return how many."""
        raise NotImplementedError

    async def _with_past(self, wanted: Filter) -> Filter:
        """Return a filter that names a forked session as one that shows its past, too; any other as it is."""
        session = None if wanted.metadata is None else wanted.metadata.session_id
        if session is None or not session.startswith(MARK):
            return wanted
        pasts: list[tuple[str, int]] = []
        bound: int | None = None
        record = first = await self._record(session)
        while record is not None:
            place = await self._bound(record)
            bound = place if bound is None else min(bound, place)
            pasts.append((record.parent, bound))
            record = await self._record(record.parent)
        if first is None:
            return wanted
        assert wanted.metadata is not None, "it names a session"
        condition = InBranch(session, first.metadata.user_id, tuple(pasts), wanted.archived)
        others = wanted.metadata.model_copy(update={"session_id": None})
        return replace(wanted, metadata=others, archived=None, further=(*wanted.further, condition))

    async def _record(self, session_id: str) -> BranchMemory | None:
        found = await self._get(session_id) if session_id.startswith(MARK) else None
        return found if isinstance(found, BranchMemory) else None

    async def _bound(self, record: BranchMemory) -> int:
        """Return the place up to which a record's session shares its parent's past."""
        place = await self._place(record.at)
        if place is not None:
            return place
        # The item was purged. What was created up to then is what was there.
        parent = MemoryMetadata(session_id=record.parent)
        where = {"created_at": {"$lte": record.at_created}, "user_id": record.metadata.user_id}
        found = await self._search(Filter.of(metadata=parent, where=where, archived=None), Page(1, order="added"))
        return await self._place(found[0].id) or 0 if found else 0

    async def _pass_on(self, wanted: Filter) -> int:
        """Give what is about to be cleared, and is somebody else's past, to him; return how many items that were.

        Other branches of the session get the heir as their parent first, so that wherever this stops nobody has lost
        anything.
        """
        session = None if wanted.metadata is None else wanted.metadata.session_id
        if session is None:
            return 0
        others = MemoryMetadata(user_id=wanted.metadata.user_id) if wanted.metadata is not None else None
        records = await self._search(Filter(metadata=others, memory_type="branch", archived=None), Page(order="added"))
        children = [record for record in records if isinstance(record, BranchMemory) and record.parent == session]
        passed_on = 0
        for user in {child.metadata.user_id for child in children}:
            own = [child for child in children if child.metadata.user_id == user]
            bounds = {child.id: await self._bound(child) for child in own}
            heir = max(own, key=lambda child: (bounds[child.id], child.id))
            siblings = [copy_item(child) for child in own if child is not heir]
            for sibling in siblings:
                sibling.parent = heir.id
            if siblings:
                await self._update_many(siblings, None)
            past = wanted.also(Value("user_id", False, "$eq", user), Value("memory_type", False, "$ne", "branch"))
            passed_on += await self._rehome(past, bounds[heir.id], heir.id)
            await self._take_over(heir, bounds[heir.id])
        return passed_on

    async def _take_over(self, heir: BranchMemory, bound: int) -> None:
        """Let the heir of a session that is a branch itself go on from where that one came from."""
        parent = await self._record(heir.parent)
        if parent is not None:
            changed = copy_item(heir)
            changed.parent = parent.parent
            if await self._bound(parent) < bound:
                changed.at, changed.at_created = parent.at, parent.at_created
            await self._update_many([changed], None)
