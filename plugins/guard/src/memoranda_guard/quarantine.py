"""Quarantine: items that a policy keeps apart, until a person approves or rejects them.

A quarantined item arrives deleted, under the id and owner of the original, which it holds as JSON. Nothing that reads a
store shows it, and a careless ``restore`` shows an archived item without content.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError, MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda.shapes import check_text
from memoranda.store import dump_item, load_item
from memoranda.trust import Trust, origin_of, trust_of

if TYPE_CHECKING:
    from memoranda.store import BaseStore

FORMAT = "memoranda-quarantine/1"

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

    ``rule`` and ``reason`` say why, ``original_type`` is the ``memory_type`` of the original.
    """

    memory_type: str = "quarantined"
    content: str = ""
    rule: str = ""
    reason: str = ""
    original_type: str = ""

    @classmethod
    def of(cls, item: MemoryItem, rule: str, reason: str) -> QuarantinedMemory:
        """Return an item as it is kept in quarantine."""
        return cls(
            id=item.id,
            metadata=item.metadata.model_copy(update={"extra": {}}),
            created_at=item.created_at,
            version=item.version,
            archived_by=item.id,
            payload=dump_item(item),
            payload_format=FORMAT,
            rule=rule,
            reason=reason,
            original_type=item.memory_type,
            trust=trust_of(item),
            origin=origin_of(item),
        )

    def original(self) -> dict[str, Any]:
        """Return the original as JSON. It is what was planted: show it to people, and to no model."""
        found = json.loads(self.payload or "{}")
        return found if isinstance(found, dict) else {}


def is_approved(item: MemoryItem) -> bool:
    """Return True while :func:`approve` stores this item."""
    return item.id in _approved.get()


async def quarantined(store: BaseStore, *, metadata: MemoryMetadata | None = None) -> list[QuarantinedMemory]:
    """Return the quarantined items of a store or scoped handle, oldest first."""
    found = [
        item
        async for item in store.scan(metadata=metadata, memory_type="quarantined", include_deleted=True)
        if isinstance(item, QuarantinedMemory)
    ]
    return sorted(found, key=lambda item: item.created_at)


async def approve(
    store: BaseStore, item_id: str, *, by: str, trust: Trust | str | None = None, metadata: MemoryMetadata | None = None
) -> MemoryItem:
    """Store the original of a quarantined item under its id, and return it.

    The item keeps its trust unless ``trust`` says another. Its ``approval`` records who approved it, when, and from
    which trust. Raises NotQuarantinedError if there is none of this id, InputError for an empty ``by``.
    """
    if not check_text(by, "by").strip():
        raise InputError("An approval needs the name of the person who gives it.", field="by")
    kept = await _found(store, item_id, metadata)
    before = trust_of(kept)
    item = load_item(kept.original(), store.item_types).model_copy(
        update={"metadata": _owner(kept), "trust": Trust(trust or before)}
    )
    approval = {"by": by, "at": now_text(), "from": before.value}
    item = item.model_copy(update={"approval": approval, "version": 0})
    token = _approved.set(_approved.get() | {item.id})
    try:
        await store.purge(kept.id)
        await store.add(item)
    finally:
        _approved.reset(token)
    return item


async def reject(store: BaseStore, item_id: str, *, metadata: MemoryMetadata | None = None) -> None:
    """Remove a quarantined item for good. Raises NotQuarantinedError if there is none of this id."""
    kept = await _found(store, item_id, metadata)
    await store.purge(kept.id)


async def _found(store: BaseStore, item_id: str, metadata: MemoryMetadata | None) -> QuarantinedMemory:
    check_text(item_id, "item_id")
    for item in await quarantined(store, metadata=metadata):
        if item.id == item_id:
            return item
    raise NotQuarantinedError(item_id)


def _owner(kept: QuarantinedMemory) -> MemoryMetadata:
    """Return the owner that the store has, with the extra of the original."""
    extra = kept.original().get("metadata", {}).get("extra", {})
    return kept.metadata.model_copy(update={"extra": extra})
