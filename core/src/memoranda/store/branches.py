"""Branches: sessions that share the past of another without copying it.

A forked session is a record, which is an item, and its id tells that it is one: sessions whose ids do not begin so are
never looked up. See :class:`memoranda.items.BranchMemory`. Records come from :meth:`Branching.fork` alone, so that what
a record says can be trusted; see :meth:`memoranda.store.writing.Writing._typed` for what refuses all others.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text, truth
from memoranda.store.checks import storable
from memoranda.store.codec import copy_item
from memoranda.store.conditions import FieldEquals, InBranch, metadata_conditions
from memoranda.store.engine import Engine
from memoranda.store.filters import Filter, Page
from memoranda.store.protocol import Capability
from memoranda.store.values import Value
from memoranda.store.writes import Write

_NO_SUCH_ITEM = "The session shows no such item to fork at."


class Branching(Engine):
    """What a store promises of sessions that are forked, and what a backend with the capability ``fork`` calls."""

    async def fork(self, session_id: str, *, at: str, record: BranchMemory | None = None, deleted: bool = False) -> str:
        """Return a new session that shares the past of a session up to the item ``at``, that one included.

        Nothing is copied, and the cost does not grow with the length. Reading the new session shows the past and what
        is added to it; each side goes on by itself. An item of the past is one item: updating, clearing or purging it
        does so for both. Of the past it shares what lies in the scope of the handle that forks. Raises InputError if
        the session does not show such an item. Capability ``fork``.

        Copies of other stores give the ``record`` as :meth:`scan` yields it, with its ``parent`` and ``at``: the branch
        is made again under its id and with its times, and stays hidden if it is ``deleted``. Each item that it names
        must be there, of the same user, or InputError is raised. A branch that is there already is left as it is;
        another one of this id is a conflict. A store without the capability keeps the record for the next copy.
        """
        self._ensure_open()
        check_text(session_id, "session_id")
        check_text(at, "at")
        if record is None:
            self._require(Capability.FORK)
        if truth(deleted, "deleted"):
            self._require(Capability.ADD_DELETED)
        made = self._new_record() if record is None else _checked(record)
        shared = {session_id: at, **made.earlier} if at or record is None else {}
        items = [await self._last_shared(session, item_id, record) for session, item_id in shared.items()]
        owners = {item.metadata.user_id for item in items} or {made.metadata.user_id}
        if len(owners) > 1 or made.metadata.user_id not in (None, *owners):
            raise InputError("The items that a branch shares are not of its user.", field="record")
        if made.id in {item.metadata.session_id for item in items}:
            raise InputError("A branch does not share its own items with itself.", field="record")
        made.metadata = made.metadata.model_copy(update={"user_id": owners.pop()})
        if items:
            made.parent, made.at = str(items[0].metadata.session_id), at
        for session, item in zip(shared, items, strict=True):
            # A record that names what lies before its parent needs no other record to tell.
            made.places |= await self._lineage("" if made.earlier else session, item)
        made.places.pop(made.id, None)
        stamped = self._stamped(storable(made))
        if stamped.expires_at is not None:
            self._require(Capability.TTL)
            self._lifetimes.note(stamped.expires_at)
        async with self._alone():
            try:
                await self._apply(Write([stamped], fresh=True, hidden=frozenset({made.id} if deleted else ())))
            except VersionConflictError:
                if record is None or not await self._is_there(stamped, deleted):
                    raise
        return made.id

    def _new_record(self) -> BranchMemory:
        branch = f"{MARK}{uuid.uuid4().hex}"
        return BranchMemory(id=branch, metadata=MemoryMetadata(session_id=branch), archived_by=branch)

    async def _last_shared(self, session_id: str, item_id: str, record: BranchMemory | None) -> MemoryItem:
        """Return an item that a session shows to this handle; one that is deleted, too, if a record names it."""
        scope = MemoryMetadata(session_id=session_id)
        wanted = self._filter(metadata=scope, archived=None).also(FieldEquals("id", item_id))
        found = await self._search(wanted, Page(1))
        if not found and record is not None and Capability.DELETE in self.capabilities:
            found = [item async for item in self._scan(wanted, True, "added")]
        if not found:
            raise InputError(_NO_SUCH_ITEM, field="at")
        return found[0]

    async def _is_there(self, made: MemoryItem, deleted: bool) -> bool:
        """Return True if the store has this branch already: with the same times, owner, shared items and visibility."""
        can_hide = Capability.DELETE in self.capabilities
        if (await self._get(made.id) is None) is not deleted:
            return False
        wanted = self._filter(metadata=MemoryMetadata(session_id=made.id), archived=None)
        here = wanted.also(FieldEquals("id", made.id))
        found = [stored async for stored in self._scan(here, can_hide, "added")]
        told = [await self._portable(copy_item(each), wanted, hidden) for each in found for hidden in (False, can_hide)]
        known = [each.model_copy(update={"version": 0}) for each in (*found, *told)]
        return made in known or made.model_copy(update={"places": {}}) in known

    async def _lineage(self, session_id: str, item: MemoryItem) -> dict[str, int]:
        """Return up to which places a fork of a session at an item shares others, that of the item first."""
        if Capability.FORK not in self.capabilities:
            return {}
        place = await self._place(item.id)
        if place is None:
            raise InputError(_NO_SUCH_ITEM, field="at")
        record = await self._record(session_id)
        is_theirs = record is not None and record.metadata.user_id == item.metadata.user_id
        earlier = record.places if record is not None and is_theirs else {}
        return {str(item.metadata.session_id): place} | {name: min(upto, place) for name, upto in earlier.items()}

    async def _place(self, item_id: str) -> int | None:
        """Return the place of an item in the order of adding, deleted or not; None if there is none.

        It is above 0, stays the same as long as the store lasts, and is below those of all items that come later.
        """
        raise NotImplementedError

    async def _record(self, session_id: str) -> BranchMemory | None:
        """Return the record of a session, if it is a forked one."""
        found = await self._get(session_id) if session_id.startswith(MARK) else None
        if type(found) is not BranchMemory or found.metadata.session_id != session_id:
            return None
        if found.expires_at is not None and found.expires_at <= self._lifetimes.now(self.clock):
            return None
        return found

    async def _with_past(self, wanted: Filter) -> Filter:
        """Return a filter that names a forked session as one that shows its past, too; any other as it is."""
        session = None if wanted.metadata is None else wanted.metadata.session_id
        record = None if session is None else await self._record(session)
        return wanted if record is None or not record.places else _in_branch(wanted, record)

    async def _portable(self, item: MemoryItem, wanted: Filter, include_deleted: bool) -> MemoryItem:
        """Return an item as a scan yields it: a record without places, naming what else of its past the scan yields."""
        if type(item) is not BranchMemory or Capability.FORK not in self.capabilities:
            return item
        shared: dict[str, str] = {}
        for session in item.places:
            of_session = replace(wanted, memory_type=None).also(Value("session_id", False, "$eq", session))
            part = _in_branch(of_session, item)
            if include_deleted:
                async for last in self._scan(part, True, "added"):
                    shared[session] = last.id
            elif found := await self._search(part, Page(1, order="added")):
                shared[session] = found[0].id
        parent = next(iter(shared), "")
        item.parent, item.at = parent, shared.pop(parent, "")
        item.earlier, item.places = shared, {}
        return item


def _in_branch(wanted: Filter, record: BranchMemory) -> Filter:
    """Return a filter that looks into the session of a record, and into its past, in the place of what it names."""
    owner = record.metadata
    pasts = tuple((session, upto) for session, upto in record.places.items() if session != record.id)
    within = MemoryMetadata(task_id=owner.task_id, agent_id=owner.agent_id, namespace=owner.namespace)
    branch = InBranch(record.id, owner.user_id, pasts, wanted.archived, metadata_conditions(within))
    others = None if wanted.metadata is None else wanted.metadata.model_copy(update={"session_id": None})
    return replace(wanted, metadata=others, archived=None, further=(*wanted.further, branch))


def _checked(record: BranchMemory) -> BranchMemory:
    """Return a new record with what is to be kept of one from elsewhere. Raises InputError if it is none."""
    if type(record) is not BranchMemory or record.memory_type != "branch":
        raise InputError("record must be the BranchMemory of a branch.", field="record")
    owner = record.metadata
    if not record.id.startswith(MARK) or not record.id == owner.session_id == record.archived_by:
        raise InputError(
            f"The id of a branch's record begins with {MARK!r}, and is its session_id and archived_by, too.",
            field="record",
        )
    names = ("id", "archived_by", "created_at", "updated_at", "ttl", "expires_at", "earlier")
    kept = {name: getattr(record, name) for name in names}
    return BranchMemory(**kept, metadata=owner.model_copy(update={"extra": {}}))


MARK = "branch-"
"""How the id of a forked session begins."""


def as_one_session(items: Sequence[MemoryItem], session_id: str | None) -> list[MemoryItem]:
    """Return items that were read as one session as items of it: those of a shared past are copies that say so."""
    if session_id is None or not session_id.startswith(MARK):
        return list(items)
    found = []
    for item in items:
        if item.metadata.session_id != session_id:
            item = copy_item(item)
            item.__dict__["metadata"] = item.metadata.model_copy(update={"session_id": session_id})
        found.append(item)
    return found
