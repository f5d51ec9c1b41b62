"""Which facts of an item do not hold any more, and what holds instead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from memoranda_facts.dates import in_short
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.results import Fact
from memoranda_facts.timeline import Timeline
from memoranda_facts.values import same_text

_PAST = ("superseded", "ended", "retracted")


@dataclass(frozen=True, slots=True)
class Outdated:
    """A fact that an item said and that does not hold any more.

    ``state`` is superseded, ended or retracted. ``by`` is the fact that holds in its place, if one does, and ``since``
    is when it stopped being true, as coarse as it was given; None if it was never true. ``is_part`` says that the item
    also says something that still holds, so that a remark on it must name what does not.
    """

    item_id: str
    fact: Fact
    state: Literal["superseded", "ended", "retracted"]
    by: Fact | None
    since: str | None
    is_part: bool = False

    def __str__(self) -> str:
        since = f" since {in_short(self.since)}" if self.since else ""
        if self.by is not None:
            return f"{'corrected' if self.state == 'retracted' else 'no longer true'}: {self.by.object}{since}"
        return f"no longer true{since}: {self._about}" if self.since else f"not true: {self._about}"

    @property
    def named(self) -> str:
        """The remark with what it is about, for an item on which there are several or that says more.

        Such as "lives in Lisbon is no longer true: Porto since 2026-03".
        """
        return str(self) if self.by is None else f"{self._about} is {self}"

    @property
    def _about(self) -> str:
        return f"{self.fact.predicate.replace('_', ' ')} {self.fact.object}"


def outdated(knowledge: Knowledge, item_ids: Collection[str], now: str) -> dict[str, list[Outdated]]:
    """Return for each of some items, by id, which of their facts do not hold any more; none for the others."""
    asked = set(item_ids)
    found: dict[str, list[Outdated]] = {}
    says_more: set[str] = set()
    for timeline in knowledge.saying(item_ids):
        holding = timeline.at(now)
        says_more.update(source.item_id for fact in holding for source in fact.sources)
        for fact in timeline.history(now):
            if fact.state in _PAST and not _is_said_again(fact, holding):
                for item_id in dict.fromkeys(source.item_id for source in fact.sources):
                    if item_id in asked:
                        found.setdefault(item_id, []).append(_outdated(item_id, fact, timeline, holding))
    return {
        item_id: [replace(each, is_part=item_id in says_more) for each in remarks] for item_id, remarks in found.items()
    }


def _is_said_again(fact: Fact, holding: list[Fact]) -> bool:
    """Return True if the same value holds again, by whatever it was said."""
    return any(same_text(str(fact.object)) == same_text(str(each.object)) for each in holding)


def _outdated(item_id: str, fact: Fact, timeline: Timeline, holding: list[Fact]) -> Outdated:
    state = fact.state
    assert state == "superseded" or state == "ended" or state == "retracted"
    by = holding[0] if holding and timeline.kind == "one" else None
    if state == "retracted":
        return Outdated(item_id, fact, state, by, None)
    return Outdated(item_id, fact, state, by, by.valid_from if by is not None else fact.valid_to)
