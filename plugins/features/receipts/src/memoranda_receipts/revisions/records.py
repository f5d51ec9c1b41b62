"""What a store holds of an earlier version: an item of its own, outside all ordinary reads."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import number, whole_number
from memoranda.store import copy_item, dump_item, load_item
from memoranda.store.backend import Filter, Value, end_of_life
from memoranda.store.fields import TRUSTED, fields_of
from memoranda_receipts.records import SINCE

logger = logging.getLogger(__name__)

FORMAT = "memoranda-revision/1"
"""The format of a revision's payload."""

OF, VERSION = "revision_of", "revision_version"
"""The keys of ``metadata.extra`` of a revision: the id of its item, and which version it is."""

NO_REVISION = Value("memory_type", False, "$ne", "revision")
"""What holds for all items but revisions."""

ONLY_REVISIONS = Filter(memory_type="revision", archived=None)


@dataclass(frozen=True, slots=True)
class Revisions:
    """How many earlier versions are kept: for ``days``, and of each item at the most ``number``."""

    days: float = 30.0
    number: int = 100

    def __post_init__(self) -> None:
        number(self.days, "days")
        whole_number(self.number, "number")


class RevisionMemory(MemoryItem):
    """An item as it was; see :class:`Revision` for what its payload says."""

    memory_type: str = "revision"


if fields_of(RevisionMemory).plain:
    TRUSTED[RevisionMemory] = fields_of(RevisionMemory)  # Stores copy and write it like the types of the core.


@dataclass(frozen=True, slots=True)
class Revision:
    """What an item was from ``since`` on, until ``until``; None if it was deleted then."""

    item_id: str
    since: str
    until: str
    item: Mapping[str, Any] | None

    def covers(self, moment: str) -> bool:
        """Return True if the item was so at a moment."""
        return self.since <= moment < self.until

    def loaded(self, types: Mapping[str, type[MemoryItem]]) -> MemoryItem | None:
        """Return the item as it was, or None if it was deleted, or cannot be read, which is logged."""
        try:
            return None if self.item is None else load_item(self.item, types)
        except (TypeError, ValueError):
            logger.warning("A revision of the item %r cannot be read. It is passed over.", self.item_id)
            return None


def revision_item(
    item: MemoryItem, until: str, kept: Revisions, *, absent: bool = False, ends: str | None
) -> RevisionMemory:
    """Return what a store keeps of an item that is about to change.

    ``absent`` records that it was deleted; since when, the revision before it says. A revision ends with its bound, or
    when its item ``ends``: what has expired leaves nothing.
    """
    begun = "" if absent else since_of(item) or item.created_at
    lasting = end_of_life(until, kept.days * 24 * 3600)
    name = f"revision-{uuid.uuid4().hex}"
    said = {"since": begun, "until": until} | ({} if absent else {"item": dump_item(without_since(copy_item(item)))})
    place = item.metadata
    return RevisionMemory(
        id=name,
        content="",
        metadata=MemoryMetadata(
            user_id=place.user_id,
            session_id=place.session_id,
            task_id=place.task_id,
            agent_id=place.agent_id,
            namespace=place.namespace,
            extra={OF: item.id, VERSION: item.version},
        ),
        created_at=until,
        archived_by=name,
        expires_at=min((end for end in (lasting, ends) if end is not None), default=None),
        payload=json.dumps(said, separators=(",", ":")),
        payload_format=FORMAT,
    )


def readable_revision(item: MemoryItem) -> Revision | None:
    """Return what a revision says; None, which is logged, for one that cannot be read: it must hide no other."""
    try:
        said = json.loads(item.payload or "")
        found = Revision(str(item.metadata.extra[OF]), said["since"], said["until"], said.get("item"))
        if not isinstance(found.since, str) or not isinstance(found.until, str):
            raise TypeError("a time is no text")
        return found
    except (AttributeError, ValueError, TypeError, KeyError):
        logger.warning("The revision %r cannot be read: its payload is not of %s. It is passed over.", item.id, FORMAT)
        return None


def since_of(item: MemoryItem) -> str | None:
    """Return since when a stored item is as it is; None if it was stored without revisions."""
    since = (item.__pydantic_extra__ or {}).get(SINCE)
    return since if isinstance(since, str) else None


def stamp_since(item: MemoryItem, now: str) -> None:
    """Let an item, which is the store's own copy, say since when it is as it is."""
    item.__pydantic_extra__ = {**(item.__pydantic_extra__ or {}), SINCE: now}


def without_since(item: MemoryItem) -> MemoryItem:
    """Return the item itself, as its caller knows it."""
    if item.__pydantic_extra__:
        item.__pydantic_extra__.pop(SINCE, None)
    return item


def has_history(item: MemoryItem, now: str) -> bool:
    """Return True if an earlier version of an item is kept: none of a receipt, which may hold what is purged.

    A store may still have an item that has expired; that leaves none either.
    """
    return item.memory_type != "receipt" and (item.expires_at is None or item.expires_at > now)
