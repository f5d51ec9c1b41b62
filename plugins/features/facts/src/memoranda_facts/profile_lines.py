"""What holds of a user as short lines for a prompt, and which facts of an item do not hold any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memoranda.items import MemoryItem
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.records import SAME_AS
from memoranda_facts.results import Fact
from memoranda_facts.timeline import Timeline
from memoranda_facts.values import EVER, in_short, same_text

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


_PREPOSITIONS = frozenset(("in", "to", "at", "of", "from", "on", "as", "for", "with", "by"))
_VERBS = frozenset(
    (
        "likes",
        "dislikes",
        "prefers",
        "plays",
        "speaks",
        "uses",
        "owns",
        "has",
        "is",
        "visited",
        "joined",
        "takes",
        "drives",
        "studies",
        "drinks",
        "does not eat",
        "does not drink",
    )
)
_PHRASES = {"trip": "plans a trip to", "learning": "is learning"}
"""Predicates that are no verbs and read better as one."""

_NOT = "does not "
"""How a predicate begins that is denied; when it ends, it is not denied again."""

_HABITS = {"smoker": "smokes", "the gym": "goes to the gym"}
_DOINGS = frozenset(("smoke", "vape", "run", "swim", "cycle", "jog", "meditate"))
_APPOINTMENT = "when "
_NAME = "name"
"""The predicate whose value is what a person is called."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line about one fact, and what decides its place and whether it is left out."""

    text: str
    place: tuple[bool, int, bool]
    worth: tuple[bool, int, bool, int, str]
    recorded_at: str


def profile_lines(knowledge: Knowledge, user: str | None, now: str, tokens: int, counter: TokenCounter) -> list[str]:
    """Return what holds at a moment as lines, as many as fit into so many tokens.

    What holds of the user comes first and without their name, pinned predicates at its head; then what holds of others,
    by name. Within these the order is that of recording, so that a new fact changes as few lines as possible. What
    ended without another value has a line, too: "no longer …", "job: no longer …". If not all fit, the user's own,
    pinned, most trusted and latest facts are kept.
    """
    own = _own_names(knowledge, user, now)
    found = [line for timeline in knowledge.timelines.values() for line in _lines(timeline, knowledge, own, now)]
    kept: list[_Line] = []
    room = tokens
    for line in sorted(found, key=lambda each: each.worth, reverse=True):
        cost = counter(MemoryItem(content=line.text + "\n"))
        if cost <= room:
            kept.append(line)
            room -= cost
    return [line.text for line in sorted(kept, key=lambda each: (each.place, each.recorded_at))]


def _own_names(knowledge: Knowledge, user: str | None, now: str) -> frozenset[str]:
    """Return by which names the user goes, in the form in which they are compared."""
    if user is None:
        return frozenset()
    root = knowledge.names.root(user)
    named = knowledge.timelines.get((root, _NAME))
    called = [] if named is None else [knowledge.names.root(str(fact.object)) for fact in named.at(now)]
    return frozenset((root, *called))


def _lines(timeline: Timeline, knowledge: Knowledge, own: frozenset[str], now: str) -> Iterable[_Line]:
    if timeline.predicate == SAME_AS:
        return
    whose = _whose(timeline.subject, knowledge, own)
    pinned = [same_text(each.name) for each in knowledge.schema.predicates if each.pinned]
    name = same_text(timeline.predicate)
    rank = pinned.index(name) if name in pinned else len(pinned)

    def line(fact: Fact, text: str, *, holds: bool) -> _Line:
        worth = (not whose, -rank, holds, Trust(fact.trust).rank, fact.recorded_at)
        return _Line(" ".join(f"{whose}{text}".split()), (bool(whose), rank, not holds), worth, fact.recorded_at)

    holding = [knowledge.settled(fact, now) for fact in timeline.at(now)]
    past = [fact for fact in timeline.history(now) if fact.state in ("superseded", "ended")]
    for fact in holding:
        yield line(fact, f"{_said(fact)}{_notes(fact, past if timeline.kind == 'one' else ())}", holds=True)
    for fact in _ended(timeline, holding, past):
        since = f" (since {in_short(fact.valid_to)})" if fact.valid_to else ""
        yield line(fact, f"{_said(fact, 'no longer ')}{since}", holds=False)


def _ended(timeline: Timeline, holding: Sequence[Fact], past: Sequence[Fact]) -> Sequence[Fact]:
    """Return what ended without another value in its place: of a slot of one value the last."""
    if timeline.kind == "one":
        return [] if holding else past[-1:]
    held = {same_text(str(fact.object)) for fact in holding}
    latest = {same_text(str(fact.object)): fact for fact in past}
    return [fact for value, fact in latest.items() if value not in held]


def _whose(subject: str, knowledge: Knowledge, own: frozenset[str]) -> str:
    """Return the beginning of a line: nothing for the user, "mother: " for their mother, a name for anyone else."""
    if knowledge.names.root(subject) in own:
        return ""
    owner, mark, relation = subject.partition("'s ")
    return f"{relation}: " if mark and knowledge.names.root(owner) in own else f"{subject}: "


def _said(fact: Fact, denied: str = "") -> str:
    """Return a predicate and its value as one reads them: "lives in Porto", "job: nurse", "job: no longer nurse"."""
    words = fact.predicate.replace("_", " ")
    kind = fact.qualifiers.get("kind")
    value = f"{fact.object}{f' ({kind})' if kind else ''}"
    if denied and words.startswith(_NOT):
        return f"{_in_third_person(words.removeprefix(_NOT))} {value} again"
    if words == "does":
        return f"{denied}{_habit(value)}"
    if words in _PHRASES or words in _VERBS or words.rpartition(" ")[2] in _PREPOSITIONS:
        return f"{denied}{_PHRASES.get(words, words)} {value}"
    return f"{words.removeprefix(_APPOINTMENT)}: {denied}{value}"


def _in_third_person(verb: str) -> str:
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "o")) else f"{verb}s"


def _habit(value: str) -> str:
    """Return what somebody does as a verb: "smokes", "goes running", "does yoga"."""
    stem = value.removesuffix("s")
    if stem in _DOINGS:
        return f"{stem}s"
    if value.endswith("ing") and " " not in value:
        return f"goes {value}"
    return _HABITS.get(value, f"does {value}")


def _notes(fact: Fact, past: Sequence[Fact]) -> str:
    """Return what stands in brackets behind a fact: since when, any doubt, and the value before."""
    notes = []
    if fact.valid_from and fact.valid_from != EVER:
        # An appointment lies ahead: the date is that of saying it.
        since = "said" if fact.predicate.startswith("when_") else "since"
        notes.append(f"{since} {in_short(fact.valid_from)}")
    if fact.state != "holds":
        notes.append(fact.state)
    before = [each for each in past if same_text(str(each.object)) != same_text(str(fact.object))]
    if before:
        notes.append(f"before: {before[-1].object}")
    return f" ({'; '.join(notes)})" if notes else ""
