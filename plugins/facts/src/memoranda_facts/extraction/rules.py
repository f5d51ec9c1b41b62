"""The extractor by rules, for English. It reads what people say of themselves, and of others by name.

It would rather miss a fact than invent one: a rule needs a whole clause of a known form, and questions, conditions,
wishes, reports and quotations give nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from memoranda_facts.candidates import Candidate
from memoranda_facts.dates import EVER
from memoranda_facts.extraction.extractors import Extraction, Utterance, own_words
from memoranda_facts.extraction.grammar import Person, clause_starts, opening, pattern
from memoranda_facts.extraction.objects import named_object
from memoranda_facts.extraction.rule_table import Given, Rule, rules, words
from memoranda_facts.extraction.said_dates import SAID_DATE, day_of_year, said_date
from memoranda_facts.extraction.sentences import Sentence, reported_from, sentences
from memoranda_facts.records import Source

CONFIDENCE = 0.9
"""The confidence of a fact that a rule found."""

_DEATH = re.compile(
    r"\b(?:passed|died|dead|death|lost|loss|late|put down|miss(?:es|ed)?|mourn\w*|gone|stolen|gave away)\b"
)
_DATE_AFTER = re.compile(rf"[\s,]*(?P<date>{SAID_DATE})\b")
_DATE_BEFORE = re.compile(rf"(?P<date>{SAID_DATE}),?\s*$", re.IGNORECASE)
_ONLY_THEN = re.compile(r"\s+(?:when|back when|as a|until|for (?:a|two|three|four|five|six|\d+) )", re.IGNORECASE)
_TIME_UNKNOWN = re.compile(r"\b(?:since|why|reasons?|how much)\s+$", re.IGNORECASE)
_LONG_AGO = re.compile(
    r"\b(?:when (?:I|he|she|we) (?:was|were)|as a (?:kid|child|teen\w*)|once|back then|in my (?:teens|twenties|youth|"
    r"childhood))\b",
    re.IGNORECASE,
)
_NEARBY = 40
"""How many characters before a statement are looked at for its date."""

_WHICH_SIBLING = re.compile(r"(?:older|younger|big|little|eldest|youngest|twin) ")
_SAME_RELATION = {
    "mom": "mother",
    "mum": "mother",
    "dad": "father",
    "grandma": "grandmother",
    "grandpa": "grandfather",
    "fiancé": "fiance",
    "fiancée": "fiance",
    "fiancee": "fiance",
}
_PLACES = frozenset(
    ("lives_in", "from", "born_in", "grew_up_in", "citizen_of", "employer", "studies_at", "graduated_from", "visited")
)
_NAMED = frozenset(("relation", "pet", "name", "spouse"))


@dataclass(frozen=True, slots=True)
class Said:
    """A text, who it is about when it says "I" (or "you"), when it was said, and the item that holds it."""

    text: str
    speaker: str
    at: str
    item_id: str


def candidates(said: Said, *, to_speaker: bool = False) -> list[Candidate]:
    """Return what a text says of its speaker and of others, in the order of the text.

    With ``to_speaker`` another said it to the speaker, and only what it says of "you" is read.
    """
    found: dict[tuple[str, str, object, str], tuple[int, Candidate]] = {}
    for sentence in sentences(said.text, tagged=to_speaker):
        for person in (Person.SECOND,) if to_speaker else (Person.FIRST, Person.THIRD):
            for rule, match in _matches(sentence, person):
                for made in _made(rule, match, sentence, person, said):
                    key = (made.subject, made.predicate, made.object, made.kind)
                    found.setdefault(key, (sentence.start + match.start(), made))
    return [made for _, made in sorted(found.values(), key=lambda each: each[0])]


class _Compiled(NamedTuple):
    """A rule and its patterns for one person, each with True if it speaks of a moment in the past."""

    rule: Rule
    patterns: list[tuple[re.Pattern[str], bool]]


class _Grouped(NamedTuple):
    """The rules for one person: of clauses that open with a subject, of those with a possessive, and of no clause."""

    subject: list[_Compiled]
    possessive: list[_Compiled]
    anywhere: list[_Compiled]


@cache
def _grouped(person: Person) -> _Grouped:
    grouped = _Grouped([], [], [])
    for rule in rules():
        for possessive in (False, True):
            templates = [each for each in rule.templates if each.removeprefix(r"\b").startswith("{MY}") is possessive]
            patterns = [(pattern(template, person), "{DID}" in template) for template in templates]
            if patterns:
                group = grouped.anywhere if rule.anywhere else grouped.possessive if possessive else grouped.subject
                group.append(_Compiled(rule, patterns))
    return grouped


@cache
def _openings(person: Person) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return opening(person, possessive=False), opening(person, possessive=True)


def _matches(sentence: Sentence, person: Person) -> Iterator[tuple[Rule, re.Match[str]]]:
    for rule, match in _tried(sentence, person):
        if not (rule.of_the_living and _DEATH.search(sentence.text)):
            yield rule, match


def _tried(sentence: Sentence, person: Person) -> Iterator[tuple[Rule, re.Match[str]]]:
    grouped, stated = _grouped(person), sentence.stated
    # A name beside a relation is true even in a question: "Can my sister Eva come?"
    for rule, patterns in grouped.anywhere:
        for wanted, _ in patterns:
            yield from ((rule, match) for match in wanted.finditer(sentence.text))
    reported, long_ago = reported_from(stated), _LONG_AGO.search(stated)
    for start in clause_starts(stated):
        if start >= reported:
            return
        undated = long_ago or _TIME_UNKNOWN.search(stated[max(0, start - _NEARBY) : start])
        for opens, compiled in zip(_openings(person), grouped, strict=False):
            opened = opens.match(stated, start)
            if opened is None or (person is Person.THIRD and _subject(opened, "") is None):
                continue
            for rule, patterns in compiled:
                for wanted, past in patterns:
                    match = None if past and undated else wanted.match(stated, start)
                    if match is not None:
                        yield rule, match
                        break


def _made(rule: Rule, match: re.Match[str], sentence: Sentence, person: Person, said: Said) -> Iterator[Candidate]:
    subject = _subject(match, said.speaker) if person is Person.THIRD else said.speaker
    if subject is None:
        return
    for given in rule.gives:
        named = _value(rule, given, match)
        if named is None:
            continue
        value, end = named
        ending = given.kind == "end"
        if _ONLY_THEN.match(match.string, end) and not (ending or rule.names_kinds):
            continue  # "… when I was six": true then, and perhaps not now.
        date, end = _date(match, end, said.at)
        moment = date or (EVER if given.lasting else said.at)
        kind = match.groupdict().get("kind")
        yield Candidate(
            subject=subject,
            predicate=_predicate(given, match),
            object=value,
            kind=given.kind,
            valid_from=None if ending else moment,
            valid_to=moment if ending else None,
            confidence=CONFIDENCE,
            qualifiers={"kind": kind} if kind and given.predicate == "pet" else {},
            sources=(Source(said.item_id, sentence.start + match.start(), sentence.start + end),),
            rule=f"rules/{rule.name}",
        )


def _subject(match: re.Match[str], speaker: str) -> str | None:
    """Return who a statement in the third person is about: a name, or "Ada's wife"; None if it is no one's name."""
    who = match.group("who").rstrip(",")
    relation = who[3:] if who.lower().startswith("my ") else ""
    name = re.search(r"(?:^|[ ,])([A-ZÀ-Þ][^,]*)$", relation or who)
    if name is not None:
        return name.group(1) if _is_name(name.group(1)) else None
    return f"{speaker}'s {_SAME_RELATION.get(relation, relation)}"


@cache
def _no_names() -> frozenset[str]:
    return frozenset(words()["NOT_NAME"])


def _is_name(text: str) -> bool:
    first = text.split()[0]
    return first.lower() not in _no_names() and not first.endswith(("ing", "ly"))


def _predicate(given: Given, match: re.Match[str]) -> str:
    if given.predicate == "relation":
        relation = _WHICH_SIBLING.sub("", match.group("relation"))
        return _SAME_RELATION.get(relation, relation).replace("-", "_").replace(" ", "_")
    if given.predicate in ("favorite", "attribute"):
        kind = match.group("kind").replace(" ", "_")
        return f"favorite_{kind}" if given.predicate == "favorite" else kind
    return given.predicate


def _value(rule: Rule, given: Given, match: re.Match[str]) -> tuple[str, int] | None:
    """Return the value of a fact and where its statement ends in the sentence; None if it is no value after all."""
    group = given.group if match.groupdict().get(given.group) is not None else "apposed"
    text = match.groupdict().get(group)
    if text is None:
        return None
    value: str | None = text
    if rule.names_anything:
        value = named_object(text, match.string[match.end(group) :], bare=rule.names_kinds)
    elif given.predicate == "birthday":
        value = day_of_year(text)
    elif given.predicate == "born_on":
        value = said_date(text, "9999-12-31") if re.search(r"\d{4}", text) else None
    elif given.predicate in _PLACES:
        value = _place(text)
    elif given.predicate in _NAMED:
        value = text if _is_name(text) else None
    if value is None:
        return None
    # An object that may be anything was read up to the end of its clause, and can be a part of that.
    end = match.start(group) + len(value) if rule.names_anything and text.startswith(value) else match.end()
    return value, end


def _place(text: str) -> str | None:
    """Return a place without what only looks like a part of it: "Rome, And" is Rome."""
    kept: list[str] = []
    for part in text.split(", "):
        first = part.split()[0].lower()
        if first in _no_names() and first not in ("the", "a", "an", "new", "my"):
            break
        kept.append(part)
    return ", ".join(kept) or None


def _date(match: re.Match[str], end: int, spoken: str) -> tuple[str | None, int]:
    """Return the date that is said right after a statement or right before it, and where the statement ends with it."""
    lasted = match.groupdict().get("lasted")
    if lasted is not None:
        return said_date(f"{lasted} ago", spoken), end
    after = _DATE_AFTER.match(match.string, end)
    found = after or _DATE_BEFORE.search(match.string[max(0, match.start() - _NEARBY) : match.start()])
    if found is None:
        return None, end
    date = said_date(found.group("date"), spoken)
    if date and spoken.startswith(date) and not found.group("date").startswith("since"):
        date = spoken  # "I moved today" must not lie before what was said this morning.
    return date, end if after is None else after.end()


class RuleExtractor:
    """Finds facts in English by rules, without a model.

    Compiling the rules takes about a second, once for each process, and reading about a millisecond for each
    utterance; both are done in a thread.
    """

    name = "rules"
    batch_size = 64

    async def extract(self, utterances: Sequence[Utterance]) -> Extraction:
        """Return what these utterances state."""
        return await asyncio.to_thread(self._extracted, utterances)

    def _extracted(self, utterances: Sequence[Utterance]) -> Extraction:
        found = Extraction()
        for each in utterances:
            item, confirmed = each.item, each.confirmed
            found.candidates += candidates(Said(own_words(item), each.speaker, item.created_at, item.id))
            if confirmed is not None:
                said = Said(own_words(confirmed), each.speaker, confirmed.created_at, confirmed.id)
                found.candidates += [
                    replace(made, sources=(*made.sources, Source(item.id)))
                    for made in candidates(said, to_speaker=True)
                ]
        return found
