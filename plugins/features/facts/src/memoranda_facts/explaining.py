"""Why a fact stands as it does: its sources, its rule, and the line of the rule table that decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoranda.items import MemoryItem
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.records import Record, Source
from memoranda_facts.results import Fact, Support, Why
from memoranda_facts.timeline import Assertion, Run, Timeline


def supporting(knowledge: Knowledge, fact: Fact) -> list[Record]:
    """Return the active records that assert or confirm a fact, in the order of their recording."""
    key = knowledge.place(fact.id)
    timeline = None if key is None else knowledge.timelines[key]
    found = [] if timeline is None else [*timeline.assertions, *timeline.retracted]
    named = [each for each in found if each.record.id in fact.entries]
    return [record for each in named for record in (each.record, *each.support)]


def explained(knowledge: Knowledge, fact: Fact, items: Mapping[str, MemoryItem]) -> Why:
    """Return why a fact stands as it does. ``items`` are those of its sources that are there."""
    key = knowledge.place(fact.id)
    assert key is not None  # A fact that was just read has a place.
    timeline = knowledge.timelines[key]
    run = next((run for run in timeline.runs if run.first.record.id == fact.id), None)
    records = supporting(knowledge, fact)
    supports = [
        Support(source, _text_of(source, items), record.rule) for record in records for source in record.sources
    ]
    before, behind, against = _around(timeline, fact, run)
    return Why(
        fact=fact,
        sources=tuple(supports),
        rule=fact.rule,
        decided_by=_decision(timeline, fact, run, before, behind, against),
        replaced=tuple(timeline.fact(each, "superseded") for each in before),
        replaced_by=tuple(timeline.fact(each, each.state(each.start)) for each in behind),
        against=tuple(timeline.fact(each, "disputed") for each in against),
        entries=tuple(record.id for record in timeline.active),
    )


def _text_of(source: Source, items: Mapping[str, MemoryItem]) -> str | None:
    item = items.get(source.item_id)
    return None if item is None else item.content[source.start : source.end]


def _around(timeline: Timeline, fact: Fact, run: Run | None) -> tuple[list[Run], list[Run], list[Run]]:
    """Return what a fact superseded, what superseded it, and what contradicts it."""
    if timeline.kind != "one":
        return [], [], []
    if run is None:
        lost = [each for each in timeline.assertions if each.record.id == fact.id]
        return [], [other for other in timeline.runs for each in lost if _covers(other, each.start)], []
    own = run.assertions[0].same
    others = [other for other in timeline.runs if other.assertions[0].same != own]
    hidden = _hidden(timeline)
    before = [other for other in others if other.stop == run.start]
    before += [each for each in hidden if each.assertions[0].same != own and _covers(run, each.start)]
    behind = [other for other in others if other.start == run.stop]
    against = [other for other in others if other.start < run.stop and run.start < other.stop]
    return before, behind, against


def _hidden(timeline: Timeline) -> list[Run]:
    """Return the assertions that never held, since others superseded them throughout."""
    shown = {id(each) for run in timeline.runs for each in run.assertions}
    return [Run(each.start, each.end, [each]) for each in timeline.assertions if id(each) not in shown]


def _covers(run: Run, moment: str) -> bool:
    return run.start <= moment < run.stop


def _decision(
    timeline: Timeline, fact: Fact, run: Run | None, before: list[Run], behind: list[Run], against: list[Run]
) -> str:
    if fact.state == "retracted":
        return _taken_back_by(timeline, fact)
    if fact.state == "unsure":
        return "A fact that it depends on does not hold."
    if fact.state == "disputed" and against and run is not None:
        return _dispute(run, against)
    if fact.state == "disputed":
        return "A less trusted source denies it."
    if fact.state == "superseded" and behind:
        return f"Another value has {_order(fact_assertion(timeline, fact), behind[0].first)}."
    if fact.state == "ended":
        return "It ended."
    if before and run is not None:
        return f"It has {_order(before[-1].first, run.first)} than the value that it replaced."
    return "Nothing contradicts it."


def fact_assertion(timeline: Timeline, fact: Fact) -> Assertion:
    """Return the assertion that a fact is named after."""
    return next(each for each in timeline.assertions if each.record.id == fact.id)


def _order(earlier: Assertion, later: Assertion) -> str:
    """Return which line of the rule table puts one assertion behind another."""
    return "a later valid time" if earlier.start < later.start else "the same valid time and a later recording"


def _dispute(run: Run, against: Iterable[Run]) -> str:
    for other in against:
        earlier, later = sorted((run.first, other.first), key=lambda each: each.order)
        if later.rank < earlier.rank:
            return "The later value is less trusted than the earlier one."
    return "Two values have the same valid time and were recorded together."


def _taken_back_by(timeline: Timeline, fact: Fact) -> str:
    words = {"correct": "A correction says that it was never true.", "forget": "Its sources are gone."}
    for record in reversed(timeline.active):
        if record.targets and set(record.targets).intersection(fact.entries) and record.kind != "confirm":
            return words.get(record.kind, "It was retracted.")
    return "It was retracted."
