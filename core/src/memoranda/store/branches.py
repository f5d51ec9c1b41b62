"""Forking: a new session that shares the past of another without copying it.

The record of a branch comes from :meth:`Branching.fork` alone, so that what it says can be trusted; see
:meth:`memoranda.store.writing.Writing._typed` for what refuses all others. Reads follow it in
:mod:`memoranda.store.branch_layer`.
"""

from __future__ import annotations

import uuid

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text, truth
from memoranda.store.branch_layer import MARK, NO_SUCH_ITEM
from memoranda.store.checks import storable
from memoranda.store.codec import copy_item
from memoranda.store.conditions import FieldEquals
from memoranda.store.filters import Page
from memoranda.store.lifecycle import Lifecycle
from memoranda.store.protocol import Capability
from memoranda.store.requests import Write, items_of_ids, items_where


class Branching(Lifecycle):
    """What a store promises for forked sessions."""

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
            made.places |= await self._branches.lineage("" if made.earlier else session, item)
        made.places.pop(made.id, None)
        self._check_life(made)
        unobserved = self.unobserved
        stamped = unobserved.prepare(storable(made))
        self._ensure_writable()
        self._refuse_wrapped()
        try:
            await unobserved.write(Write([stamped], fresh=True, hidden=frozenset({made.id} if deleted else ())))
        except VersionConflictError:
            if record is None or not await self._is_there(stamped, deleted):
                raise
        return made.id

    def _new_record(self) -> BranchMemory:
        branch = f"{MARK}{uuid.uuid4().hex}"
        return BranchMemory(id=branch, metadata=MemoryMetadata(session_id=branch), archived_by=branch)

    async def _last_shared(self, session_id: str, item_id: str, record: BranchMemory | None) -> MemoryItem:
        """Return an item that a session shows to this handle, even a deleted one if a record names it."""
        scope = MemoryMetadata(session_id=session_id)
        wanted = self._filter(metadata=scope, archived=None).also(FieldEquals("id", item_id))
        found = await self.engine.read(items_where(wanted, Page(1)))
        if not found and record is not None and Capability.DELETE in self.capabilities:
            found = [item async for item in self.engine.stream(items_where(wanted, Page(order="added"), deleted=True))]
        if not found:
            raise InputError(NO_SUCH_ITEM, field="at")
        return found[0]

    async def _is_there(self, made: MemoryItem, deleted: bool) -> bool:
        """Return True if the store has this branch already: with the same times, owner, shared items and visibility."""
        can_hide = Capability.DELETE in self.capabilities
        if bool(await self.engine.read(items_of_ids([made.id]))) is deleted:
            return False
        wanted = self._reached(self._filter(metadata=MemoryMetadata(session_id=made.id), archived=None))
        here = items_where(wanted.also(FieldEquals("id", made.id)), Page(order="added"), deleted=can_hide)
        found = [each async for each in self._branches.inner.stream(here) if isinstance(each, BranchMemory)]
        asked = [items_where(wanted, deleted=hidden) for hidden in (False, can_hide)]
        told = [await self._branches.portable(copy_item(each), query) for each in found for query in asked]
        known = [each.model_copy(update={"version": 0}) for each in (*found, *told)]
        return made in known or made.model_copy(update={"places": {}}) in known


def _checked(record: BranchMemory) -> BranchMemory:
    """Return a new record from one of another store. Raises InputError if it is not a record."""
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
