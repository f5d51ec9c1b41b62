"""Branches: sessions that share the past of another without copying it.

A forked session is a record, which is an item, and its id tells that it is one: sessions whose ids do not begin so are
never looked up. See :class:`memoranda.items.BranchMemory`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store.capabilities import Capability
from memoranda.store.codec import copy_item
from memoranda.store.conditions import Archived, Condition, Expiry, FieldEquals, InBranch, InScope
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
            # Where the item itself is: sessions between are not needed, and may end.
            parent=item.metadata.session_id or session_id,
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

    async def _branches_of(self, session_id: str) -> list[BranchMemory]:
        """Return the records of the sessions that were forked from this one; an engine has an index for them."""
        records = await self._search(Filter(memory_type="branch", archived=None), Page(order="added"))
        return [record for record in records if isinstance(record, BranchMemory) and record.parent == session_id]

    async def _with_past(self, wanted: Filter) -> Filter:
        """Return a filter that names a forked session as one that shows its past, too; any other as it is."""
        session = None if wanted.metadata is None else wanted.metadata.session_id
        if session is None or not session.startswith(MARK):
            return wanted
        chain = await self._chain(session)
        if not chain:
            return wanted
        pasts: list[tuple[str, int]] = []
        bound: int | None = None
        for number, record in enumerate(chain):
            place = await self._bound(record, chain[number:])
            bound = place if bound is None else min(bound, place)
            pasts.append((record.parent, bound))
        assert wanted.metadata is not None, "it names a session"
        condition = InBranch(session, chain[0].metadata.user_id, tuple(pasts), wanted.archived)
        others = wanted.metadata.model_copy(update={"session_id": None})
        return replace(wanted, metadata=others, archived=None, further=(*wanted.further, condition))

    async def _record(self, session_id: str) -> BranchMemory | None:
        found = await self._get(session_id) if session_id.startswith(MARK) else None
        return found if isinstance(found, BranchMemory) else None

    async def _chain(self, session_id: str) -> list[BranchMemory]:
        """Return the records that lead from a session back to where it comes from.

        Whoever may add items may add records that lead in a circle: each is followed once.
        """
        chain: list[BranchMemory] = []
        seen = {session_id}
        record = await self._record(session_id)
        while record is not None and record.parent not in seen:
            chain.append(record)
            seen.add(record.parent)
            record = await self._record(record.parent)
        return chain

    async def _bound(self, record: BranchMemory, chain: Sequence[BranchMemory]) -> int:
        """Return the place up to which a record's session shares the past that its chain leads to."""
        place = await self._place(record.at)
        if place is not None:
            return place
        # The item was purged. What was created up to then is what was there.
        sessions = Value("session_id", False, "$in", [each.parent for each in chain] or [record.parent])
        upto = Value("created_at", False, "$lte", record.at_created)
        owner = Value("user_id", False, "$eq", record.metadata.user_id)
        found = await self._search(Filter(archived=None, further=(sessions, owner, upto)), Page(1, order="added"))
        return (await self._place(found[0].id) if found else None) or 0

    async def _pass_on(self, wanted: Filter) -> tuple[int, Filter]:
        """Give what is about to be removed, and is somebody else's past, to him.

        Return how many items that were, and which are to be removed now. Only a session as a whole ends: what removes a
        part of one leaves it where it comes from. Other branches of the session get the heir as their parent first, so
        that wherever this stops nobody has lost anything.
        """
        metadata = wanted.metadata
        if metadata is None or metadata.session_id is None or any(map(_is_over, wanted.further)):
            return 0, wanted
        ends = all(type(each) is Expiry or _names_owner(each) for each in wanted.conditions)
        if not ends:
            wanted = wanted.also(Value("memory_type", False, "$ne", "branch"))
        children: dict[str | None, list[BranchMemory]] = {}
        for record in await self._branches_of(metadata.session_id):
            if metadata.user_id in (None, record.metadata.user_id) and record.id != metadata.session_id:
                children.setdefault(record.metadata.user_id, []).append(record)
        passed_on = 0
        for own in children.values():
            passed_on += await self._bequeath(wanted, own, ends=ends)
        return passed_on, wanted

    async def _bequeath(self, wanted: Filter, children: Sequence[BranchMemory], *, ends: bool) -> int:
        """Give the shared part of what is about to be removed to one of a user's branches, and return how much."""
        bounds = {child.id: await self._bound(child, await self._chain(child.id)) for child in children}
        heir = max(children, key=lambda child: (bounds[child.id], child.id))
        siblings = [copy_item(child) for child in children if child is not heir]
        for sibling in siblings:
            sibling.parent = heir.id
        if siblings:
            await self._update_many(siblings, None)
        owner = Value("user_id", False, "$eq", heir.metadata.user_id)
        past = wanted.also(owner, Value("memory_type", False, "$ne", "branch"))
        await self._show_again(past, heir, bounds[heir.id])
        passed_on = await self._rehome(past, bounds[heir.id], heir.id)
        if ends:
            await self._take_over(heir, bounds[heir.id])
        return passed_on

    async def _show_again(self, past: Filter, heir: BranchMemory, bound: int) -> None:
        """Let items stand for themselves whose summary stays behind: it was made after the heir was forked."""
        assert past.metadata is not None, "it names a session"
        shown = InBranch(heir.id, heir.metadata.user_id, ((heir.parent, bound),), False)
        others = past.metadata.model_copy(update={"session_id": None})
        found = await self._search(replace(past.also(Archived(True), shown), metadata=others), Page())
        for item in found:
            item.archived_by = None
        if found:
            await self._update_many(found, None)

    async def _take_over(self, heir: BranchMemory, bound: int) -> None:
        """Let the heir of a session that is a branch itself go on from where that one came from."""
        chain = await self._chain(heir.parent)
        if chain:
            parent, changed = chain[0], copy_item(heir)
            changed.parent = parent.parent
            if await self._bound(parent, chain) < bound:
                changed.at, changed.at_created = parent.at, parent.at_created
            await self._update_many([changed], None)


def _names_owner(condition: Condition) -> bool:
    return type(condition) is InScope and condition.field in ("user_id", "session_id")


def _is_over(condition: Condition) -> bool:
    """Whether only what has expired is meant, which is nobody's past."""
    return type(condition) is Expiry and condition.expired
