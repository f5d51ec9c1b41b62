"""From the log of a slot to what held when: a pure computation, without a store.

The rules, for two different values of a slot of kind ``one`` that overlap:

1. The later one is that with the later ``valid_from``; of two with the same, the one that was recorded later.
2. The later one supersedes the earlier one, unless it is less trusted. One that has no end does so for good: when it is
   ended, the earlier one does not come back. One that was recorded with an end splits the other.
3. What no other supersedes holds. Several such values are disputed, the most trusted first.

An end cuts what began before it, whenever either was recorded. A correction or a retraction takes its targets away. An
undo switches a change off as if it had never been recorded. If one of these is less trusted than what it is about, it
leaves that as it is, but disputed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memoranda.trust import Trust
from memoranda_facts.records import Record, Source
from memoranda_facts.results import Fact, State
from memoranda_facts.schema import Kind
from memoranda_facts.values import AFTER_ALL, end_of, same_value, start_of

LEVELS = tuple(Trust)
"""Every level of trust, in the order of their ranks."""

Interval = tuple[str, str]
"""A first moment, and the first one after the last."""


@dataclass(slots=True, eq=False)
class Assertion:
    """An entry that asserts a value, and what other entries make of it.

    ``start`` and ``end`` are what it was recorded with; ``pieces`` is when its value is not superseded. From the moment
    ``contested`` on, a less trusted entry denies it.
    """

    record: Record
    same: str
    start: str
    end: str
    rank: int
    support: list[Record]
    contested: str = AFTER_ALL
    pieces: list[Interval] = field(default_factory=list)

    @property
    def order(self) -> tuple[str, str]:
        """What decides which of two is later."""
        return self.start, self.record.at

    @property
    def names(self) -> tuple[str, ...]:
        """The ids that it goes by: its own, and of what it confirmed and outlasted."""
        return (self.record.id, *self.record.targets) if self.record.kind == "confirm" else (self.record.id,)

    @property
    def is_open(self) -> bool:
        """True if it was recorded without an end."""
        return self.end == AFTER_ALL


@dataclass(slots=True, eq=False)
class Run:
    """A value, and an interval throughout which it was not superseded; ``disputed`` are the parts with doubt."""

    start: str
    stop: str
    assertions: list[Assertion]
    disputed: list[Interval] = field(default_factory=list)
    facts: dict[State, Fact] = field(default_factory=dict)

    def state(self, moment: str) -> State:
        """Return how the value stands at a moment of the run."""
        doubtful = any(start <= moment < stop for start, stop in self.disputed)
        return "disputed" if doubtful else "holds"

    @property
    def rank(self) -> int:
        """The highest trust of those that assert it."""
        return max(assertion.rank for assertion in self.assertions)

    @property
    def first(self) -> Assertion:
        """The assertion that it is named after."""
        return min(self.assertions, key=lambda assertion: (*assertion.order, assertion.record.number))


def active_records(log: Iterable[Record]) -> list[Record]:
    """Return the records of a log that no undo switches off, in their order.

    An undo that is less trusted than a record, or than what confirms it, leaves it on.
    """
    undone: dict[str, int] = {}
    confirmed: dict[str, int] = {}
    kept = []
    for record in reversed(list(log)):
        if record.change in undone:
            rank = max(record.rank, confirmed.get(record.id, 0))
            if record.kind == "forget" or undone[record.change] >= rank:
                continue
        if record.undoes is not None:
            undone[record.undoes] = max(record.rank, undone.get(record.undoes, 0))
        elif record.kind == "confirm":
            for target in record.targets:
                confirmed[target] = max(record.rank, confirmed.get(target, 0))
        kept.append(record)
    return kept[::-1]


class Timeline:
    """What held when in one slot, as it was known at one moment."""

    def __init__(self, log: Iterable[Record], kind: Kind, subject: str, predicate: str) -> None:
        self.subject = subject
        self.predicate = predicate
        self.kind = kind
        recorded = list(log)
        self.active = active_records(recorded)
        self._there = {record.id for record in recorded}
        self._there -= {target for record in self.active if record.kind == "forget" for target in record.targets}
        self._starts: dict[str, str] = {}
        self._stops: dict[str, str] = {}
        found = self._asserted()
        self.assertions, self.retracted = self._taken_back(found)
        self._cut_by_ends()
        if kind == "one":
            _supersede(self.assertions)
        self.runs = self._joined()
        parts = [(run.start, run.stop) for run in self.runs] + [part for run in self.runs for part in run.disputed]
        self.edges = sorted({edge for part in parts for edge in part})

    def sources(self) -> set[str]:
        """Return the ids of the items that say any of its values, those that were taken back too."""
        asserted = [*self.assertions, *self.retracted]
        records = [record for each in asserted for record in (each.record, *each.support)]
        return {source.item_id for record in records for source in record.sources}

    def at(self, moment: str) -> list[Fact]:
        """Return the facts of a moment, of disputed ones the most trusted and then the latest first."""
        found = [run for run in self.runs if run.start <= moment < run.stop]
        if not found:
            return []
        if len(found) > 1 and self.kind == "one":
            found.sort(key=lambda run: (run.rank, max(each.order for each in run.assertions)), reverse=True)
        return [self.fact(run, run.state(moment)) for run in found]

    def run_of(self, entry_id: str, moment: str | None = None) -> Run | None:
        """Return the run that an entry is part of: the one at a moment, or the last."""
        among = [run for run in self.runs if any(entry_id in each.names for each in run.assertions)]
        if moment is not None:
            among = [run for run in among if run.start <= moment < run.stop]
        return among[-1] if among else None

    def history(self, now: str) -> list[Fact]:
        listed = [(run.start, run.first.record.at, self.fact(run, self._past_state(run, now))) for run in self.runs]
        shown = {each.record.id for run in self.runs for each in run.assertions}
        unseen = [assertion for assertion in self.assertions if assertion.record.id not in shown]
        listed += [(*assertion.order, self._whole(assertion, "superseded")) for assertion in unseen]
        listed += [(*assertion.order, self._whole(assertion, "retracted")) for assertion in self.retracted]
        return [fact for _, _, fact in sorted(listed, key=lambda each: each[:2])]

    def _past_state(self, run: Run, now: str) -> State:
        if run.stop > now:
            return run.state(max(now, run.start))
        follows = any(other.start <= run.stop < other.stop for other in self.runs if other is not run)
        return "superseded" if follows and self.kind == "one" else "ended"

    def _whole(self, assertion: Assertion, state: State) -> Fact:
        return self.fact(Run(assertion.start, assertion.end, [assertion]), state)

    def fact(self, run: Run, state: State) -> Fact:
        if state in run.facts:
            return run.facts[state]
        first, asserting = run.first, sorted(run.assertions, key=lambda each: (each.record.at, each.record.number))
        supporting = [record for each in asserting for record in (each.record, *each.support)]
        independent = any(not each.record.depends_on for each in asserting)
        parents = [parent for each in asserting for parent in each.record.depends_on]
        fact = Fact(
            id=first.record.id,
            subject=self.subject,
            predicate=self.predicate,
            object=first.record.value if first.record.value is not None else "",
            state=state,
            valid_from=self._starts.get(run.start, run.start),
            valid_to=first.record.valid_to if run.stop == AFTER_ALL else self._stops.get(run.stop, run.stop),
            recorded_at=asserting[0].record.at,
            change=first.record.change,
            qualifiers={key: value for each in asserting for key, value in each.record.qualifiers.items()},
            confidence=max(record.confidence for record in supporting),
            trust=str(LEVELS[run.rank]),
            sources=_each_once(source for record in supporting for source in record.sources),
            depends_on=() if independent else tuple(dict.fromkeys(parents)),
            rule=first.record.rule,
            entries=tuple(each.record.id for each in asserting),
        )
        run.facts[state] = fact
        return fact

    def _asserted(self) -> list[Assertion]:
        found: dict[str, Assertion] = {}
        for record in self.active:
            asserts = record.kind in ("set", "correct", "merge")
            if record.kind == "confirm":  # It stands for what it confirms if that is gone.
                asserts = self._there.isdisjoint(record.targets)
            if asserts and record.value is not None:
                start = start_of(record.valid_from or record.at)
                end = AFTER_ALL if self.kind == "event" else end_of(record.valid_to)  # What happened, has happened.
                self._starts.setdefault(start, record.valid_from or start)
                self._stops.setdefault(end, record.valid_to or end)
                found[record.id] = Assertion(record, same_value(record.value), start, end, record.rank, support=[])
            elif record.kind == "confirm":
                for target in record.targets:
                    if target in found:
                        found[target].support.append(record)
                        found[target].rank = max(found[target].rank, record.rank)
        return list(found.values())

    def _taken_back(self, found: list[Assertion]) -> tuple[list[Assertion], list[Assertion]]:
        takers = [record for record in self.active if record.kind in ("correct", "retract", "forget")]
        denied: dict[str, list[Record]] = {}
        for record in takers:
            for target in record.targets:
                denied.setdefault(target, []).append(record)
        # What an undo has left on is more trusted than the undo.
        doubted = {record.undoes for record in self.active if record.undoes is not None}
        standing, gone = [], []
        for assertion in found:
            against = denied.get(assertion.record.id, ())
            if any(record.kind == "forget" or record.rank >= assertion.rank for record in against):
                gone.append(assertion)
                continue
            if against or assertion.record.change in doubted:
                assertion.contested = assertion.start
            standing.append(assertion)
        return standing, gone

    def _cut_by_ends(self) -> None:
        """Give every assertion its first piece: from its start to its end, or to where it was ended."""
        ends: dict[str | None, list[tuple[str, int]]] = {}
        for record in self.active:
            if record.kind == "end" and self.kind != "event":
                moment = end_of(record.valid_to or record.at)
                self._stops.setdefault(moment, record.valid_to or moment)
                about = None if record.value is None else same_value(record.value)
                insort(ends.setdefault(about, []), (moment, record.rank))
        for assertion in self.assertions:
            stop = assertion.end
            for about in (None, assertion.same):
                moments = ends.get(about, [])
                for moment, rank in moments[bisect_right(moments, (assertion.start, len(LEVELS))) :]:
                    if moment >= stop:
                        break
                    if rank >= assertion.rank:
                        stop = moment
                    else:
                        assertion.contested = min(assertion.contested, moment)
            if assertion.start < stop:
                assertion.pieces = [(assertion.start, stop)]

    def _joined(self) -> list[Run]:
        values: dict[str, list[Assertion]] = {}
        for assertion in self.assertions:
            key = assertion.same if self.kind != "event" else f"{assertion.same} {assertion.start}"
            values.setdefault(key, []).append(assertion)
        runs = [run for asserting in values.values() for run in _runs(asserting)]
        runs.sort(key=lambda run: (run.start, run.first.record.at, run.first.record.number))
        if self.kind == "one":
            _mark_disputes(runs)
        return runs


def _supersede(assertions: Sequence[Assertion]) -> None:
    latest_first = sorted(assertions, key=lambda each: each.order, reverse=True)
    whole = {id(each): list(each.pieces) for each in assertions}
    # For each trust: the nearest later open assertion that has at least that much, and the nearest of another value.
    nearest: list[list[Assertion]] = [[] for _ in LEVELS]
    bounded: list[list[Assertion]] = [[] for _ in LEVELS]
    for _, together in _grouped(latest_first):
        for assertion in together:
            for other in nearest[assertion.rank]:
                if other.same != assertion.same:
                    assertion.pieces = _without(assertion.pieces, (other.start, AFTER_ALL))
                    break
            for other in bounded[assertion.rank]:
                if other.same != assertion.same:
                    for piece in whole[id(other)]:
                        assertion.pieces = _without(assertion.pieces, piece)
        for assertion in together:
            for rank in range(assertion.rank + 1):
                if assertion.is_open:
                    others = [each for each in nearest[rank] if each.same != assertion.same]
                    nearest[rank] = [assertion, *others[:1]]
                else:
                    bounded[rank].append(assertion)


def _grouped(ordered: Sequence[Assertion]) -> Iterator[tuple[tuple[str, str], list[Assertion]]]:
    """Yield assertions of the same order together: none of them supersedes another."""
    together: list[Assertion] = []
    for assertion in ordered:
        if together and together[0].order != assertion.order:
            yield together[0].order, together
            together = []
        together.append(assertion)
    if together:
        yield together[0].order, together


def _without(pieces: list[Interval], taken: Interval) -> list[Interval]:
    left = []
    for start, stop in pieces:
        if taken[0] >= stop or taken[1] <= start:
            left.append((start, stop))
            continue
        if start < taken[0]:
            left.append((start, taken[0]))
        if taken[1] < stop:
            left.append((taken[1], stop))
    return left


def _runs(asserting: list[Assertion]) -> list[Run]:
    runs: list[Run] = []
    pieces = sorted(((start, stop, at) for at, each in enumerate(asserting) for start, stop in each.pieces))
    for start, stop, at in pieces:
        assertion = asserting[at]
        if runs and start <= runs[-1].stop:
            runs[-1].stop = max(runs[-1].stop, stop)
            if assertion not in runs[-1].assertions:
                runs[-1].assertions.append(assertion)
        else:
            runs.append(Run(start, stop, [assertion]))
    for run in runs:
        run.disputed = _contested(run)
    return runs


def _contested(run: Run) -> list[Interval]:
    if all(each.contested == AFTER_ALL for each in run.assertions):
        return []
    doubtful = [(run.start, run.stop)]
    for assertion in run.assertions:
        for start, stop in assertion.pieces:
            doubtful = _without(doubtful, (start, max(start, min(stop, assertion.contested))))
    return doubtful


def _mark_disputes(runs: Sequence[Run]) -> None:
    starts = [run.start for run in runs]
    for at, run in enumerate(runs):
        for other in runs[at + 1 : bisect_left(starts, run.stop)]:
            shared = (max(run.start, other.start), min(run.stop, other.stop))
            if shared[0] < shared[1]:
                run.disputed.append(shared)
                other.disputed.append(shared)


def _each_once(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(sources))
