"""The extractor by rules. It reads what people say of themselves, and of others by name.

It would rather miss a fact than invent one: a rule needs a whole clause of a known form, and questions, conditions,
wishes, reports and quotations give nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple

from memoranda_facts.extraction.extractors import Extraction, OpenFacts, Utterance, own_words
from memoranda_facts.extraction.grammar import Person, clause_starts, has_further_letters, opening
from memoranda_facts.extraction.languages import foreign_matches
from memoranda_facts.extraction.lazy_patterns import LazyPattern
from memoranda_facts.extraction.mentions import corrections, mentioned_endings
from memoranda_facts.extraction.proposing import NEARBY, Said, Statement, subject_of, with_doses
from memoranda_facts.extraction.rule_table import Rule, has_one_value, rules
from memoranda_facts.extraction.sentences import Sentence, reported_from, sentences
from memoranda_facts.extraction.spelling import readable
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate, Fact
from memoranda_facts.values import same_text

_DEATH = re.compile(
    r"\b(?:passed|died|dead|death|lost|loss|late|put down|miss(?:es|ed)?|mourn\w*|gone|stolen|gave away)\b"
)
_GREETING_LENGTH = 12
_TIME_UNKNOWN = re.compile(r"\b(?:since|why|reasons?|how much)\s+$", re.IGNORECASE)
_LONG_AGO = re.compile(
    r"\b(?:when (?:I|he|she|we) (?:was|were)|as a (?:kid|child|teen\w*)|once|back then|in my (?:teens|twenties|youth|"
    r"childhood))\b",
    re.IGNORECASE,
)


def candidates(said: Said, *, to_speaker: bool = False, known: OpenFacts | None = None) -> list[Candidate]:
    """Return what a text says of its speaker and of others, in the order of the text.

    With ``to_speaker`` another said it to the speaker, and only what it says of "you" is read. ``known`` is what holds:
    many endings are understood only with it, and it is changed by what is found.
    """
    holding = OpenFacts() if known is None else known
    text, places = readable(said.text)
    said = replace(said, text=text)
    found: dict[tuple[str, str, object, str], Candidate] = {}
    follows: str | None = None
    for sentence in sentences(said.text, tagged=to_speaker):
        statements = [
            Statement(rule, match, sentence, person, said)
            for person in ((Person.SECOND,) if to_speaker else (Person.FIRST, Person.THIRD))
            for rule, match in _matches(sentence, person)
            if rule.follows in (None, follows) and not (rule.stands_alone and _says_more(said, sentence))
        ]
        if not to_speaker:
            statements += [
                Statement(rule, match, sentence, Person.THIRD if "who" in match.groupdict() else Person.FIRST, said)
                for rule, match in foreign_matches(sentence)
            ]
        made = [each for one in sorted(statements, key=lambda each: each.place) for each in one.candidates(holding)]
        if not to_speaker and sentence.doubt is None:
            made += mentioned_endings(sentence, said, holding)
        if not made and not to_speaker:
            made = list(corrections(sentence, said, holding))
        if sentence.doubt is not None:
            made = list(_disputes(made, sentence, said, holding))
        made = list(with_doses(made, holding))
        for each in made:
            is_new = found.setdefault((each.subject, each.predicate, each.object, each.kind), each) is each
            if is_new and not each.doubtful:
                holding.note(each)
        follows = statements[-1].rule.name if statements else None
    return [_placed(each, places) for each in _settled(list(found.values()))]


def _says_more(said: Said, sentence: Sentence) -> bool:
    """Return True if a text says more than a sentence and a greeting."""
    return len(said.text) > len(sentence.text) + _GREETING_LENGTH


def _placed(made: Candidate, places: Sequence[int]) -> Candidate:
    """Return a candidate whose sources say where its words stand in the text that was typed."""
    if not places:
        return made
    sources = [replace(each, start=places[each.start or 0], end=places[each.end or 0]) for each in made.sources]
    return replace(made, sources=tuple(sources))


def _disputes(made: Iterable[Candidate], sentence: Sentence, said: Said, holding: OpenFacts) -> Iterator[Candidate]:
    """Yield what is said with doubt, where it contradicts what holds; otherwise a doubt says nothing."""
    for each in made:
        known = holding.of(each.subject, (each.predicate,))
        same = [fact for fact in known if same_text(fact.value) == same_text(str(each.object))]
        doubted = replace(each, doubtful=True)
        if sentence.doubt == "still" and each.kind == "set" and same:
            yield replace(doubted, kind="end", valid_from=None, valid_to=said.at, qualifiers={})
        elif (
            sentence.doubt == "thought" and each.kind != "end" and known and not same and has_one_value(each.predicate)
        ):
            yield doubted


def _settled(found: list[Candidate]) -> list[Candidate]:
    """Return candidates without values that the same text sets first and ends later."""
    over = {
        (each.subject, each.predicate, each.object): place for place, each in enumerate(found) if each.kind == "end"
    }
    return [
        each
        for place, each in enumerate(found)
        if each.kind != "set" or over.get((each.subject, each.predicate, each.object), -1) < place
    ]


class _Compiled(NamedTuple):
    """A rule and its patterns for one person, each with True if it speaks of a moment in the past."""

    rule: Rule
    patterns: list[tuple[LazyPattern, bool]]


_Ready = tuple[Rule, list[tuple[re.Pattern[str], bool]]]
"""A rule with those of its patterns that may match a text, each with True if it speaks of a moment in the past."""

Clauses = Literal["subject", "possessive", "anywhere", "free"]
"""Where a template is tried: in clauses that open with a subject or with a possessive, anywhere, and in any clause."""


def _clauses_of(rule: Rule, template: str) -> Clauses:
    if rule.anywhere:
        return "anywhere"
    if rule.starts_anyhow:
        return "free"
    return "possessive" if template.startswith("{MY}") else "subject"


@cache
def _compiled(person: Person, clauses: Clauses) -> tuple[_Compiled, ...]:
    """Return the rules of some clauses for one person."""
    found = []
    for rule in rules():
        if rule.is_of_others and person is not Person.THIRD:
            continue
        templates = [each for each in rule.templates if _clauses_of(rule, each) == clauses]
        if templates:
            found.append(_Compiled(rule, [(LazyPattern(each, person), "{DID}" in each) for each in templates]))
    return tuple(found)


@cache
def _openings(person: Person, *, all_alphabets: bool) -> dict[Clauses, re.Pattern[str]]:
    return {
        "subject": opening(person, possessive=False, all_alphabets=all_alphabets),
        "possessive": opening(person, possessive=True, all_alphabets=all_alphabets),
    }


def _matches(sentence: Sentence, person: Person) -> Iterator[tuple[Rule, re.Match[str]]]:
    for rule, match in _tried(sentence, person):
        if not (rule.of_the_living and _DEATH.search(sentence.text)):
            yield rule, match


def _tried(sentence: Sentence, person: Person) -> Iterator[tuple[Rule, re.Match[str]]]:
    stated = sentence.stated
    # A name beside a relation is true even in a question: "Can my sister Eva come?"
    for rule, patterns in _ready(person, "anywhere", sentence.text):
        for pattern, _ in patterns:
            yield from ((rule, match) for match in pattern.finditer(sentence.text))
    reported, long_ago = reported_from(stated), _LONG_AGO.search(stated)
    openings = _openings(person, all_alphabets=has_further_letters(stated))
    ready: dict[Clauses, list[_Ready]] = {}
    for start in clause_starts(stated):
        if start >= reported:
            return
        undated = long_ago or _TIME_UNKNOWN.search(stated[max(0, start - NEARBY) : start])
        for clauses in _kinds_of_clause(stated, start, person, openings):
            if clauses not in ready:
                ready[clauses] = _ready(person, clauses, stated)
            for rule, patterns in ready[clauses]:
                for pattern, past in patterns:
                    match = None if past and undated else pattern.match(stated, start)
                    if match is not None:
                        yield rule, match
                        break


def _kinds_of_clause(
    stated: str, start: int, person: Person, openings: dict[Clauses, re.Pattern[str]]
) -> Iterator[Clauses]:
    """Yield which templates are tried on the clause that starts at a place."""
    if person is Person.FIRST:
        yield "free"
    for clauses, opens in openings.items():
        opened = opens.match(stated, start)
        if opened is not None and (person is not Person.THIRD or subject_of(opened, "") is not None):
            yield clauses


def _ready(person: Person, clauses: Clauses, text: str) -> list[_Ready]:
    """Return the rules that may match a text."""
    found: list[_Ready] = []
    all_alphabets = has_further_letters(text)
    for rule, patterns in _compiled(person, clauses):
        fitting = []
        for wanted, past in patterns:
            ready = wanted.ready(text, all_alphabets=all_alphabets)
            if ready is not None:
                fitting.append((ready, past))
        if fitting:
            found.append((rule, fitting))
    return found


class RuleExtractor:
    """Finds facts by rules, without a model: most in English, some in German, Spanish and French.

    Reading takes about a millisecond for each utterance, and the first ones of a process some tenths of a second, in
    which the rules that they need are compiled; both are done in a thread.
    """

    name = "rules"
    batch_size = 64

    async def extract(self, utterances: Sequence[Utterance], known: Sequence[Fact] = ()) -> Extraction:
        """Return what these utterances state; ``known`` is what holds before them."""
        return await asyncio.to_thread(self._extracted, utterances, known)

    def _extracted(self, utterances: Sequence[Utterance], known: Sequence[Fact]) -> Extraction:
        found, holding = Extraction(), OpenFacts(known)
        for each in utterances:
            item, confirmed = each.item, each.confirmed
            said = Said(own_words(item), each.speaker, item.created_at, item.id)
            found.candidates += candidates(said, known=holding)
            if confirmed is not None:
                said = Said(own_words(confirmed), each.speaker, confirmed.created_at, confirmed.id)
                found.candidates += [
                    replace(made, sources=(*made.sources, Source(item.id)))
                    for made in candidates(said, to_speaker=True, known=holding)
                ]
        return found
