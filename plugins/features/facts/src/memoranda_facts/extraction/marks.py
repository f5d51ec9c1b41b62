"""Which items an extractor has read, in one small item for each owner and extractor.

It names the last item, in the order of adding, up to which all have been read, and those behind it that have been read
out of turn. Losing it costs a second reading, which changes nothing: candidates have keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.store.records import writing_records
from memoranda_facts.records import FOLDER

MARK_TYPE = "fact-mark"
MARK_FORMAT = "memoranda-fact-mark/1"

_REMEMBERED = 16
"""How many of the last items are named: if some are purged, another still shows where to go on."""


@dataclass(slots=True)
class Mark:
    """What has been read: everything up to one of ``through``, latest first, except ``unread``; and ``done``."""

    through: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    version: int = 0

    def advance(self, item_ids: Iterable[str]) -> None:
        """Move the mark behind these items, given in the order of adding."""
        for item_id in item_ids:
            self.through.insert(0, item_id)
            self.done.discard(item_id)
        del self.through[_REMEMBERED:]


class Marks:
    """The mark of one extractor for one owner."""

    def __init__(self, store: Store, owner: MemoryMetadata, extractor: str) -> None:
        self._store = store
        self._named = json.dumps([owner.user_id, owner.agent_id, list(owner.namespace), extractor])
        self._metadata = MemoryMetadata(
            user_id=owner.user_id, agent_id=owner.agent_id, namespace=(*owner.namespace, FOLDER, "marks")
        )

    @property
    def _id(self) -> str:
        return f"{MARK_TYPE}-{self._store.derived_id(self._named)}"

    async def load(self) -> Mark:
        """Return the mark as it is stored; an empty one if there is none, or none that can be read."""
        item = await self._store.get(self._id)
        if item is None:
            return Mark()
        try:
            held = json.loads(item.payload or "")
            return Mark(list(held["through"]), set(held["unread"]), set(held["done"]), item.version)
        except (ValueError, TypeError, KeyError):
            return Mark(version=item.version)

    async def save(self, mark: Mark) -> None:
        """Store a mark. If another process has stored one meanwhile, what either has read counts as read."""
        while True:
            try:
                with writing_records(MARK_TYPE):
                    mark.version = (await self._store.update(self._item(mark))).version
                return
            except VersionConflictError:
                other = await self.load()
                mark.done |= other.done
                mark.version = other.version

    def _item(self, mark: Mark) -> MemoryItem:
        held = {"through": mark.through, "unread": sorted(mark.unread), "done": sorted(mark.done)}
        return MemoryItem(
            id=self._id,
            content="",
            memory_type=MARK_TYPE,
            metadata=self._metadata,
            version=mark.version,
            archived_by=self._id,  # No search shows it.
            payload=json.dumps(held, separators=(",", ":")),
            payload_format=MARK_FORMAT,
        )
