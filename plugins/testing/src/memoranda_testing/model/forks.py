"""What the model knows of sessions that were forked: which items such a session shows, read from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.store import Filter, metadata_matches
from memoranda_testing.model.rows import Row
from memoranda_testing.model.steps import BRANCH


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of what a session shows: items of a session, a past one's of its owner up to a place."""

    session: str
    owner: MemoryMetadata | None = None
    places: Mapping[str, int] | None = None

    def holds(self, item: MemoryItem) -> bool:
        """Whether an item is one of this part; of a past what lies in the scope that it was forked in."""
        if item.metadata.session_id != self.session or self.owner is None or self.places is None:
            return item.metadata.session_id == self.session
        is_theirs = item.metadata.user_id == self.owner.user_id and item.memory_type != "branch"
        scope = self.owner.model_copy(update={"session_id": None})
        return is_theirs and metadata_matches(scope, item.metadata) and item.id in self.places

    def archives(self, item: MemoryItem, rows: Mapping[str, Row]) -> bool:
        """Whether a summary stands for an item; in a past only one that is of the past, too."""
        if item.archived_by is None or self.places is None:
            return item.archived_by is not None
        return item.archived_by in self.places and not rows[item.archived_by].deleted


def record_of(item: MemoryItem, session_id: str) -> BranchMemory:
    """Return the record of a session that is forked at an item, under a name and with times that are not its own."""
    return BranchMemory(
        id=BRANCH,
        metadata=MemoryMetadata(user_id=item.metadata.user_id, session_id=BRANCH),
        archived_by=BRANCH,
        parent=item.metadata.session_id or session_id,
        at=item.id,
        version=1,
    )


def shown(rows: Mapping[str, Row], wanted: Filter) -> Callable[[MemoryItem], bool]:
    """Return which items match: those of a filter, and where it names a forked session those of its past as well."""
    session = None if wanted.metadata is None else wanted.metadata.session_id
    stretches = [] if session is None else _stretches(rows, session)
    if len(stretches) < 2:
        return wanted.matches
    assert wanted.metadata is not None, "it names a session"
    others = replace(wanted, metadata=wanted.metadata.model_copy(update={"session_id": None}), archived=None)

    def fits(item: MemoryItem) -> bool:
        part = next((each for each in stretches if each.holds(item)), None)
        if part is None or not others.matches(item):
            return False
        return wanted.archived is None or part.archives(item, rows) is wanted.archived

    return fits


def told(rows: Mapping[str, Row], found: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return what a scan has found as it yields it: records name the last item of their past that is among it."""
    items: list[MemoryItem] = []
    for item in found:
        if isinstance(item, BranchMemory):
            fits = shown(rows, Filter(metadata=MemoryMetadata(session_id=item.id), archived=None))
            past = [each.id for each in found if each.metadata.session_id == item.parent and fits(each)]
            last = {"parent": item.parent, "at": past[-1]} if past else {"parent": "", "at": ""}
            item = item.model_copy(update=last)
        items.append(item)
    return items


def _stretches(rows: Mapping[str, Row], session: str) -> list[_Stretch]:
    """Return a session's own part, and that of every session that it comes from, as long as those can be followed."""
    found, order = [_Stretch(session)], list(rows)
    end = len(order)
    while True:
        row = rows.get(found[-1].session)
        record = None if row is None or row.deleted else row.item
        if not isinstance(record, BranchMemory) or record.parent in [each.session for each in found]:
            return found
        end = min(end, order.index(record.at) + 1)
        places = {item_id: place for place, item_id in enumerate(order[:end])}
        found.append(_Stretch(record.parent, record.metadata, places))
