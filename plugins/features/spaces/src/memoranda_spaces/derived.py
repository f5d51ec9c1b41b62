"""What is made from items of several places, and how long it may last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memoranda.items import MemoryItem, sources_of
from memoranda.store import copy_item
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
        """Return the lineage of an item whose sources, as far as they are there, are given by their ids.

        Of a source that is not there, such as a deleted one, the item's own word is kept. An item of a space has no
        other spaces, and ends with those of its sources that were made from others, such as publications.
        """
        lineage = cls()
        own_space = space_of(item)
        for source_id in sources_of(item):
            source = sources.get(source_id)
            if own_space is not None:
                if source is not None and sources_of(source):
                    lineage.end_by(source.expires_at)
                continue
            if source is None:
                lineage._add(made_from(item))
                continue
            space = space_of(source)
            lineage._add(made_from(source) if space is None else {space: [source_id]})
            if space is not None or made_from(source):
                lineage.end_by(source.expires_at)
                lineage.trust = min(lineage.trust, trust_of(source))
        return lineage

    def _add(self, spaces: Mapping[str, Iterable[str]]) -> None:
        for name, ids in spaces.items():
            known = self.spaces.setdefault(name, [])
            known += [each for each in ids if each not in known]

    def end_by(self, moment: str | None) -> None:
        """Take note of an end; None is none."""
        if moment is not None and (self.ends is None or moment < self.ends):
            self.ends = moment

    def given_to(self, item: MemoryItem) -> MemoryItem:
        """Return a copy of an item that names the spaces, and lasts no longer than what it was made from."""
        if not self.spaces and self.ends is None and not made_from(item):
            return item
        bounded = copy_item(item)
        if bounded.__pydantic_extra__ is None:
            object.__setattr__(bounded, "__pydantic_extra__", {})
        extra = bounded.__pydantic_extra__
        assert extra is not None
        extra.pop(MADE_FROM, None)
        if self.spaces:
            extra[MADE_FROM] = {name: sorted(ids) for name, ids in sorted(self.spaces.items())}
            # What was made from words of others is trusted no further than they are.
            bounded.__dict__["trust"] = str(min(trust_of(bounded), self.trust, MOST_TRUST))
        if self.ends is not None:
            ends = self.ends if bounded.expires_at is None else min(self.ends, bounded.expires_at)
            # Its own ttl would let it live on whenever it is read.
            bounded.__dict__.update(expires_at=ends, ttl=None)
        return bounded
