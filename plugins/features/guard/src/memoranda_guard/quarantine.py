"""Quarantine: items that a policy keeps apart, until a person approves or rejects them.

A quarantined item arrives deleted, under the id and owner of the original, which it holds as JSON. Nothing that reads a
store shows it, and a careless ``restore`` shows an archived item without content. In the place of a tool's result
stands another one, which says that it is withheld: a model that saw neither the call nor a result would call again.
"""

from __future__ import annotations

import json
import uuid
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, ToolMemory, now_text
from memoranda.shapes import check_text, json_text
from memoranda.store import Capability, dump_item, load_item
from memoranda.store.base import check_approver, check_reviewer
from memoranda.store.records import copying_records
from memoranda.trust import Trust, check_trust, origin_of, trust_of

if TYPE_CHECKING:
    from memoranda.store import Store

QUARANTINED = "quarantined"
"""The ``memory_type`` of items in quarantine."""

FORMAT = "memoranda-quarantine/1"

WITHHELD = "This result is withheld until a person has reviewed it. Calling the tool again does not help."
"""What a model is shown in the place of a quarantined result of a tool."""

_approved: ContextVar[frozenset[str]] = ContextVar("approved", default=frozenset())


class NotQuarantinedError(MemoryError, LookupError):
    """There is no quarantined item of this id in the store or the scope."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"No quarantined item has the id {item_id!r} here. 'memoranda quarantine list' shows them all."
        )
        self.item_id = item_id


class QuarantinedMemory(MemoryItem):
    """An item that a policy keeps apart. ``content`` is empty; the original is in ``payload``.

    ``rule`` and ``reason`` say why, ``original_type`` is the ``memory_type`` of the original. ``shown_as`` is the id of
    the item that is shown in the place of a tool's result.
    """

    memory_type: str = QUARANTINED
    content: str = ""
    rule: str = ""
    reason: str = ""
    original_type: str = ""
    shown_as: str = ""

    @classmethod
    def of(cls, item: MemoryItem, rule: str, reason: str) -> QuarantinedMemory:
        """Return an item as it is kept in quarantine."""
        return cls(
            id=item.id,
            metadata=item.metadata.model_copy(update={"extra": {}}),
            created_at=item.created_at,
            version=item.version,
            archived_by=item.id,
            payload=json_text(dump_item(item)),
            payload_format=FORMAT,
            rule=rule,
            reason=reason,
            original_type=item.memory_type,
            shown_as=uuid.uuid4().hex if getattr(item, "tool_call_id", "") else "",
            trust=trust_of(item),
            origin=origin_of(item),
        )

    def original(self) -> dict[str, Any]:
        """Return the original as JSON. It is what was planted: show it to people, and to no model."""
        found = json.loads(self.payload or "{}")
        return found if isinstance(found, dict) else {}


def withheld_result(kept: MemoryItem) -> ToolMemory | None:
    """Return what is shown in the place of a quarantined result of a tool, None for any other item."""
    kept = _typed(kept)
    if not kept.shown_as:
        return None
    # Only what pairs the result with its call is taken from the original: all else in it may be text, its origin too.
    links = {name: kept.original().get(name) for name in ("tool_call_id", "also_answers", "group")}
    fields = ("metadata", "created_at", "ttl", "expires_at", "trust")
    return ToolMemory(
        id=kept.shown_as,
        content=WITHHELD,
        **{name: value for name, value in links.items() if value},
        **{name: getattr(kept, name) for name in fields},
    )


def is_kept_apart(item: MemoryItem) -> bool:
    """Return True for an item in quarantine that shows nothing of its original, as all but forged ones."""
    if item.memory_type != QUARANTINED or item.payload_format != FORMAT or item.archived_by != item.id:
        return False
    return not item.content and item.name is None and not item.metadata.extra


def is_approved(item: MemoryItem) -> bool:
    """Return True while :func:`approve` stores this item."""
    return item.id in _approved.get()


async def quarantined(store: Store, *, metadata: MemoryMetadata | None = None) -> list[QuarantinedMemory]:
    """Return the quarantined items of a store or scoped handle, oldest first."""
    scan = store.scan(metadata=metadata, memory_type=QUARANTINED, include_deleted=True)
    return sorted([_typed(item) async for item in scan], key=lambda item: item.created_at)


async def approve(
    store: Store, item_id: str, *, by: str, trust: Trust | str | None = None, metadata: MemoryMetadata | None = None
) -> MemoryItem:
    """Store the original of a quarantined item under its id, and return it.

    The item keeps its trust unless ``trust`` says another. Its ``approval`` records who approved it, when, and from
    which trust; what was shown in its place goes. Raises NotQuarantinedError if there is none of this id, InputError
    for an empty ``by`` and for a handle with a trust: it speaks for somebody else than who approves.
    """
    check_approver(store, by)
    kept = await _found(store, item_id, metadata)
    before = trust_of(kept)
    level = before if trust is None else check_trust(trust, "trust")
    # The version is what makes it an approval of just this item.
    approval = {"by": by, "at": now_text(), "from": str(before), "version": kept.version}
    extra = kept.original().get("metadata", {}).get("extra", {})
    owner = kept.metadata.model_copy(update={"extra": extra})
    fields = {**kept.original(), "id": kept.id, "version": 0, "trust": str(level), "approval": approval}
    item = load_item(fields, store.item_types).model_copy(update={"metadata": owner})
    token = _approved.set(_approved.get() | {item.id})
    try:
        # It replaces what is kept apart, in one step.
        with copying_records(store):
            shown = await store.get(kept.shown_as) if kept.shown_as else None
            if shown is not None and shown.content == WITHHELD:  # An imported record may name any other item.
                purges = Capability.PURGE in store.capabilities
                await store.apply(adds=[item], deletes=[shown.id], purge=purges)
            else:
                await store.add(item)
    finally:
        _approved.reset(token)
    return item


async def reject(store: Store, item_id: str, *, metadata: MemoryMetadata | None = None) -> None:
    """Remove a quarantined item for good. Raises NotQuarantinedError if there is none of this id.

    What is shown in the place of a tool's result stays: the call was made. Raises InputError for a handle with a trust,
    as :func:`approve` does.
    """
    check_reviewer(store)
    kept = await _found(store, item_id, metadata)
    await store.purge(kept.id)


def _typed(item: MemoryItem) -> QuarantinedMemory:
    """Return an item of this type as its class, which a store that was opened by hand may not know."""
    if isinstance(item, QuarantinedMemory):
        return item
    typed = load_item(dump_item(item), {QUARANTINED: QuarantinedMemory})
    assert isinstance(typed, QuarantinedMemory), "the type is known"
    return typed


async def _found(store: Store, item_id: str, metadata: MemoryMetadata | None) -> QuarantinedMemory:
    check_text(item_id, "item_id")
    for item in await quarantined(store, metadata=metadata):
        if item.id == item_id:
            return item
    raise NotQuarantinedError(item_id)
