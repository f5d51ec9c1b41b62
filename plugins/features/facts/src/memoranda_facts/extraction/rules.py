"""The extractor by rules. It reads what people say of themselves, and of others by name.

It would rather miss a fact than invent one: a rule needs a whole clause of a known form, and questions, conditions,
wishes, reports and quotations give nothing.

A value that holds is looked for in a sentence by its name, or as "my dog" and "my car" if only one is meant. Then
``endings.txt`` says which words around it end it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple

from memoranda_facts.extraction.extractors import Extraction, OpenFact, OpenFacts, Utterance, own_words, same_thing
from memoranda_facts.extraction.grammar import (
    LazyPattern,
    Person,
    clause_starts,
    foreign_matches,
    has_further_letters,
    opening,
)
from memoranda_facts.extraction.proposing import CONFIDENCE, NEARBY, Said, Statement, subject_of, with_doses
from memoranda_facts.extraction.rule_table import Rule, has_one_value, phrase, rules
from memoranda_facts.extraction.sentences import Sentence, readable, reported_from, sentences
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate, Fact
from memoranda_facts.values import same_text

_VALUE = r"[\w:.@+-]*\w(?: [\w:.@+-]*\w){0,3}?"
_ENDS = r"(?=\s*(?:[.!,;…\x00]|$))"
_MARK = phrase("MARK")
_MEANT = (
    r"(?:i meant(?: to say)?|i should have said|make that|it['’]?s|it is|that['’]?s|it was|ich meinte|es ist|"
    r"quise decir|quería decir|es|je voulais dire|c['’]est) "
)
_NOT = r"(?:not|nicht|no|pas)"
_MARKED = rf"^(?:(?:{_MARK})+(?:i [^,.]{{1,30}}, )?(?:{_MEANT})?|{_MEANT})"
_AT = "(?:on |in |at )?"
_ONE_OR_TWO = r"[\w:.@+-]*\w(?: [\w:.@+-]*\w)?"

_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_MARKED}{_AT}(?P<new>{_VALUE}),? {_NOT} {_AT}(?P<old>{_VALUE}){_ENDS}",
        rf"{_MARKED}{_NOT} {_AT}(?P<old>{_VALUE}),? (?:but|sondern|sino|mais)? ?{_AT}(?P<new>{_VALUE}){_ENDS}",
        rf"^{_AT}(?P<new>{_ONE_OR_TWO}), {_NOT} {_AT}(?P<old>{_ONE_OR_TWO})[.!]*$",
        rf"^(?:{_MARK})*i said {_AT}(?P<old>{_VALUE}),? (?:but )?{_MEANT}{_AT}(?P<new>{_VALUE}){_ENDS}",
    )
)
"""The forms of a correction: the right value, and the wrong one."""


def corrections(sentence: Sentence, said: Said, known: OpenFacts) -> Iterator[Candidate]:
    """Yield what a sentence corrects of what is known of its speaker; at most one fact."""
    for form in _FORMS:
        match = form.match(sentence.stated)
        if match is None:
            continue
        wrong = _meant(known.all_of(said.speaker), match["old"])
        if wrong is not None and not same_thing(match["new"], wrong.value):
            start, end = sentence.span(match.start("new"), match.end())
            yield Candidate(
                subject=said.speaker,
                predicate=wrong.predicate,
                object=match["new"],
                kind="correct",
                replaces=wrong.value,
                confidence=CONFIDENCE,
                sources=(Source(said.item_id, min(start, end), end),),
                rule="rules/correction",
            )
            return


def _meant(holding: list[OpenFact], words: str) -> OpenFact | None:
    """Return the fact whose value the words name, the latest if there are several."""
    named = [each for each in holding if same_thing(words, each.value, exactly=not each.predicate.startswith("when_"))]
    return max(named, key=lambda each: each.start, default=None)


_KINDS = {"drives": "car", "trip": "trip"}
"""What a value of a predicate is called without its name."""

_CLAUSE_END = re.compile(r"[,;:!?.…–—\x00]+\s+|\b(?:and|but|so|because|und|aber|y|pero|et|mais)\s+", re.IGNORECASE)
_SPEAKER_OR_FILLER = re.compile(phrase("SPEAKER_OR_FILLER"), re.IGNORECASE)
"""A word that may stand before an ending without making it another's."""


_STOP = phrase("STOP")
"""Where an ending stops: "I sold Golf balls" says nothing of a Golf."""


@cache
def _table() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    about: list[str] = []
    for line in files("memoranda_facts.extraction").joinpath("endings.txt").read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            about = line.split()
            continue
        for predicate in about:
            found[predicate] = (*found.get(predicate, ()), line.strip())
    return found


@lru_cache(maxsize=512)
def _patterns(predicate: str, named: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns that end a value by the words that name it."""
    about = "when_*" if predicate.startswith("when_") else predicate
    templates = _table().get(about, ())
    return tuple(re.compile(rf"(?<!\w)(?:{each.replace('{V}', named)}){_STOP}", re.IGNORECASE) for each in templates)


def mentioned_endings(sentence: Sentence, said: Said, known: OpenFacts) -> Iterator[Candidate]:
    """Yield the endings of what is known of the speaker and is mentioned in a sentence."""
    stated = sentence.stated[: reported_from(sentence.stated)]
    if not stated:
        return
    holding = known.all_of(said.speaker)
    lowered = stated.casefold()
    for fact in holding:
        for named in _names(fact, holding, lowered):
            match = next(filter(None, (each.search(stated) for each in _patterns(fact.predicate, named))), None)
            if match is not None and _is_the_speakers(stated[: match.start()]):
                start, end = sentence.span(match.start(), match.end())
                yield Candidate(
                    subject=said.speaker,
                    predicate=fact.predicate,
                    object=fact.value,
                    kind="end",
                    valid_to=said.at,
                    confidence=CONFIDENCE,
                    sources=(Source(said.item_id, start, end),),
                    rule="rules/mention",
                )
                break


def _names(fact: OpenFact, holding: list[OpenFact], lowered: str) -> Iterator[str]:
    """Yield patterns of the words by which a sentence may mention a fact."""
    words = same_text(fact.value).removeprefix("a ").removeprefix("an ").removeprefix("the ")
    if words and words in lowered and not fact.predicate.startswith("when_"):
        yield rf"(?:the |my |our )?{re.escape(words)}"
    kind = _kind(fact)
    alone = kind and [_kind(each) for each in holding if each.predicate == fact.predicate].count(kind) == 1
    if kind and alone and kind in lowered:
        articles = "the|my|our|a" if fact.predicate == "drives" else "the|my|our"
        yield rf"(?:{articles}) {re.escape(kind)}"


def _kind(fact: OpenFact) -> str:
    """Return what a value is called without its name: a dog, an exam, a girlfriend."""
    if fact.predicate.startswith("when_"):
        return fact.predicate.removeprefix("when_").replace("_", " ")
    if fact.predicate == "pet":
        return fact.kind
    if fact.predicate in ("girlfriend", "boyfriend", "wife", "husband", "partner", "fiance"):
        return fact.predicate
    return _KINDS.get(fact.predicate, "")


def _is_the_speakers(before: str) -> bool:
    """Return True if the words before an ending in its clause name nobody else and deny nothing."""
    clause = _CLAUSE_END.split(before)[-1]
    return all(_SPEAKER_OR_FILLER.fullmatch(word) for word in clause.split())


_DEATH = re.compile(
    r"\b(?:passed|died|dead|death|lost|loss|late|put down|miss(?:es|ed)?|mourn\w*|gone|stolen|gave away)\b"
)
_TIME_UNKNOWN = re.compile(r"\b(?:since|why|reasons?|how much)\s+$", re.IGNORECASE)
_LONG_AGO = re.compile(phrase("LONG_AGO"), re.IGNORECASE)


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
            if rule.follows in (None, follows)
        ]
        if not to_speaker:
            statements += [Statement(*each, sentence, Person.FIRST, said) for each in foreign_matches(sentence)]
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
    found = []
    for rule in rules():
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
    for rule, patterns in _compiled(person, "anywhere"):
        for wanted, _ in patterns:
            yield from ((rule, match) for match in wanted.finditer(sentence.text))
    reported, long_ago = reported_from(stated), _LONG_AGO.search(stated)
    openings = _openings(person, all_alphabets=has_further_letters(stated))
    for start in clause_starts(stated):
        if start >= reported:
            return
        undated = long_ago or _TIME_UNKNOWN.search(stated[max(0, start - NEARBY) : start])
        tried = [*_compiled(person, "free")] if person is Person.FIRST else []
        for clauses, opens in openings.items():
            opened = opens.match(stated, start)
            if opened is not None and (person is not Person.THIRD or subject_of(opened, "") is not None):
                tried += _compiled(person, clauses)
        for rule, patterns in tried:
            for wanted, past in patterns:
                match = None if past and undated else wanted.match(stated, start)
                if match is not None:
                    yield rule, match
                    break


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
