"""Endings and corrections of what is known, wherever a sentence mentions it.

A value that holds is looked for in a sentence by its name, or as "my dog" and "my car" if only one is meant. Then
``endings.txt`` says which words around it end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

from memoranda_facts.extraction.extractors import OpenFact, OpenFacts, same_thing
from memoranda_facts.extraction.proposing import CONFIDENCE, Said
from memoranda_facts.extraction.rule_table import phrase
from memoranda_facts.extraction.sentences import Sentence, reported_from
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate
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
