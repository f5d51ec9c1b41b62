"""The reading half of :class:`Facts`, and why a fact stands as it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.loops import LoopLock, offload
from memoranda.store import Store
from memoranda.trust import Trust, check_trust
from memoranda_facts.knowledge import Knowledge, Names
from memoranda_facts.log import Log
from memoranda_facts.records import DEPENDS, MERGES, Record, Source
from memoranda_facts.results import Fact, Support, Why
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import Assertion, Run, Timeline
from memoranda_facts.values import Moment, last_moment_of, same_text


class FactReading:
    """What holds, what held, and what was believed."""

    def __init__(self, store: Store, *, schema: Schema | None = None) -> None:
        self.store = store
        self.schema = Schema() if schema is None else schema
        self._log = Log(store)
        self._newest = Knowledge([], self.schema)
        self._following = LoopLock()
        self._names: Names | None = None
        self._dependents: list[Record] | None = None
        self._trusted: tuple[Knowledge, Trust | None, Knowledge] | None = None
        """What was last known from sources of a trust, and of which knowledge that is a part."""

    async def current(
        self, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what holds now, disputed and unsure facts among it, each with its state.

        A subject and a predicate go by any of their names. With ``min_trust``, nothing that is less trusted has any
        influence. Of disputed facts, the most trusted and then the latest comes first.
        """
        return await self.state(subject=subject, predicate=predicate, min_trust=min_trust)

    async def at(
        self, moment: Moment, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what held at a moment, as it is known now; a coarse date means its last moment."""
        return await self.state(valid=moment, subject=subject, predicate=predicate, min_trust=min_trust)

    async def known(
        self, moment: Moment, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what was believed at a moment to hold then."""
        return await self.state(valid=moment, known=moment, subject=subject, predicate=predicate, min_trust=min_trust)

    async def state(
        self,
        *,
        valid: Moment | None = None,
        known: Moment | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        min_trust: str | None = None,
    ) -> list[Fact]:
        """Return what held at ``valid``, as it was known at ``known``; both are now by default."""
        asked = None if valid is None else last_moment_of(valid, "valid")
        knowledge = await self._knowledge(known, min_trust)
        found = knowledge.at(self._present(knowledge) if asked is None else asked)
        return _about(found, knowledge, subject, predicate)

    async def history(self, subject: str | None = None, predicate: str | None = None) -> list[Fact]:
        """Return every value of a slot, oldest first: superseded, ended and retracted ones too.

        Without a subject or a predicate, of every slot, one after the other.
        """
        knowledge = await self._knowledge()
        now = self._present(knowledge)
        found = [fact for key in knowledge.timelines for fact in knowledge.of_slot(key, now, history=True)]
        return _about(found, knowledge, subject, predicate)

    async def get(self, entry_id: str) -> Fact | None:
        """Return the fact that an entry is part of, as it stands now; None if there is none."""
        knowledge = await self._knowledge()
        return knowledge.fact(knowledge.full_id(entry_id), self._present(knowledge))

    def _present(self, knowledge: Knowledge) -> str:
        """Return the present; the clock by which the latest entry was recorded may be ahead of ours."""
        return max(self._log.now(), knowledge.latest)

    async def _knowledge(self, known: Moment | None = None, min_trust: str | None = None) -> Knowledge:
        """Return what is known now, or was known at a moment, from sources that are trusted so far."""
        upto = None if known is None else last_moment_of(known, "known")
        least = None if min_trust is None else check_trust(min_trust, "min_trust")
        await self._before_reading()
        newest = await self._knowledge_of_rows()
        if upto is None and least is None:
            return newest
        if upto is None and self._trusted is not None and self._trusted[:2] == (newest, least):
            return self._trusted[2]
        records = [
            record
            for record in newest.records
            if (upto is None or record.at <= upto)
            and (least is None or record.kind in ("undo", "forget") or least <= record.trust)
        ]
        found = Knowledge(records, self.schema, earlier=newest)
        if upto is None:
            self._trusted = newest, least, found
        return found

    async def _knowledge_of_rows(self) -> Knowledge:
        """Return what is known now; it is computed again only where the stored entries have changed."""
        async with self._following.held():
            new = await self._log.follow()
            if new is None or new:
                count = self._log.size if new is None else len(new)
                self._newest = known = await offload(count, self._thought_over, new)
                self._names = known.names
                self._dependents = known.depending
            return self._newest

    def _thought_over(self, new: list[Record] | None) -> Knowledge:
        """Return what is known with new records; if others have changed, from all of them."""
        grown = None if new is None else self._newest.with_new(new)
        return Knowledge(self._log.records(), self.schema, earlier=self._newest) if grown is None else grown

    async def _before_reading(self) -> None:
        """Do what is due before facts are read."""

    async def _known_names(self) -> Names:
        if self._names is None:
            merged = await self._log.rows(**{MERGES: True})
            # How far a merge counts depends on all that is known of its subjects.
            self._names = (await self._knowledge_of_rows()).names if merged else Names(self.schema)
        return self._names

    async def _known_dependents(self) -> list[Record]:
        """Return the records that depend on others, as was last read."""
        if self._dependents is None:
            self._dependents = self._log.parsed(await self._log.rows(**{DEPENDS: True}))
        return self._dependents


def _about(facts: list[Fact], knowledge: Knowledge, subject: str | None, predicate: str | None) -> list[Fact]:
    if subject is not None:
        wanted = knowledge.names.root(checked_name(subject, "subject"))
        facts = [fact for fact in facts if knowledge.names.root(fact.subject) == wanted]
    if predicate is not None:
        name = knowledge.schema.predicate(checked_name(predicate, "predicate")).name
        facts = [fact for fact in facts if same_text(fact.predicate) == same_text(name)]
    return list(facts)


def checked_name(name: str, field: str) -> str:
    """Return a name without surrounding spaces. Raises InputError if it is none."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"A {field} is a text that is not empty.", field=field)
    return name.strip()


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
