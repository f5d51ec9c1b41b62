"""What is made from items of several places, and how long it may last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memoranda.items import MemoryItem
from memoranda.store import copy_item
from memoranda.store.lineage import sources_of
from memoranda.store.spaces import space_of
from memoranda.trust import Trust, trust_of
from memoranda_spaces.shared_items import MOST_TRUST

MADE_FROM = "made_from"
"""The field of a derived item that names the spaces it was made from, each with the ids of the sources there."""


def made_from(item: MemoryItem) -> dict[str, list[str]]:
    """Return the spaces that an item was made from, each with the ids of its sources there."""
    found = (item.__pydantic_extra__ or {}).get(MADE_FROM)
    if not isinstance(found, dict):
        return {}
    return {str(space): [str(each) for each in ids] for space, ids in found.items() if isinstance(ids, (list, tuple))}


def derived_items(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return the items that were made from others."""
    return [item for item in items if sources_of(item)]


@dataclass(slots=True)
class Lineage:
    """What the sources of one item come to: the spaces they lie in, when the first of them ends, and their trust."""

    spaces: dict[str, list[str]] = field(default_factory=dict)
    ends: str | None = None
    trust: Trust = Trust.OPERATOR

    @classmethod
    def of(cls, item: MemoryItem, sources: Mapping[str, MemoryItem]) -> Lineage:
        """Return the lineage of an item whose sources, as far as they are there, are given by their ids."""
        lineage = cls()
        for source_id in sources_of(item):
            source = sources.get(source_id)
            if source is None:
                continue
            space = space_of(source)
            for name, ids in (made_from(source) if space is None else {space: [source_id]}).items():
                known = lineage.spaces.setdefault(name, [])
                known += [each for each in ids if each not in known]
            if space is not None or made_from(source):
                lineage.end_by(source.expires_at)
                lineage.trust = min(lineage.trust, trust_of(source))
        return lineage

    def end_by(self, moment: str | None) -> None:
        """Take note of an end; None is none."""
        if moment is not None and (self.ends is None or moment < self.ends):
            self.ends = moment

    def given_to(self, item: MemoryItem) -> MemoryItem:
        """Return a copy of an item that names the spaces, and lasts no longer than what it was made from."""
        bounded = copy_item(item)
        if bounded.__pydantic_extra__ is None:
            object.__setattr__(bounded, "__pydantic_extra__", {})
        extra = bounded.__pydantic_extra__
        assert extra is not None
        extra[MADE_FROM] = {name: sorted(ids) for name, ids in sorted(self.spaces.items())}
        # What was made from words of others is trusted no further than they are.
        bounded.__dict__["trust"] = str(min(trust_of(bounded), self.trust, MOST_TRUST))
        if self.ends is not None and (bounded.expires_at is None or self.ends < bounded.expires_at):
            # Its own ttl would let it live on whenever it is read.
            bounded.__dict__.update(expires_at=self.ends, ttl=None)
        return bounded
