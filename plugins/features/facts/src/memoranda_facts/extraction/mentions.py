"""Endings and corrections of what is known, wherever a sentence mentions it.

A value that holds is looked for in a sentence by its name, or as "my dog" and "my car" if only one is meant. Then
``endings.txt`` says which words around it end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from memoranda_facts.extraction.extractors import OpenFact, OpenFacts, same_thing
from memoranda_facts.extraction.languages import is_unreal_abroad
from memoranda_facts.extraction.lazy_patterns import needed
from memoranda_facts.extraction.proposing import CONFIDENCE, Said
from memoranda_facts.extraction.sentences import Sentence, reported_from
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate
from memoranda_facts.values import same_text

_VALUE = r"[\w:.@+-]*\w(?: [\w:.@+-]*\w){0,3}?"
_ENDS = r"(?=\s*(?:[.!,;…\x00]|$))"
_MARK = (
    r"(?:sorry|oops|wait|no wait|nee|warte|espera|attends|no|correction|actually|my mistake|my bad|i mean|hmm|pardon|"
    r"perdón|perdona|"
    r"entschuldigung|quatsch|nein|non|en fait|en realidad)[,.:!]*\s+"
)
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

_CLAUSE_END = re.compile(
    r"[,;:!?.…–—\x00]+\s+|\b(?:and|but|so|because|und|aber|weil|y|e|pero|porque|et|mais|car)\s+", re.IGNORECASE
)
_SPEAKER_OR_FILLER = re.compile(
    r"(?:i|i['’]m|i['’]ve|im|ive|we|we['’]re|we['’]ve|have|has|had|am|are|was|were|is|been|to|that|it|the|my|our|a|"
    r"an|dass|que|qu['’]|"
    r"just|finally|sadly|unfortunately|luckily|also|now|so|well|ok|okay|oh|btw|really|officially|already|recently|even|"
    r"today|yesterday|tonight|this|last|next|week|month|year|morning|night|monday|tuesday|wednesday|thursday|friday|"
    r"saturday|sunday|in|on|january|february|march|april|may|june|july|august|september|october|november|december|"
    r"news|update|turns|out|guess|what|resulta|además|total|bueno|pues|bref|voilà|sad|bad|good|got|did|decided|managed|"
    r"ich|wir|habe|haben|hab|bin|sind|war|mir|leider|gestern|heute|jetzt|endlich|schon|den|die|das|meinen|meine|mein|"
    r"bei|job|"
    r"inzwischen|mittlerweile|mit|mich|uns|nun|"
    r"yo|he|hemos|me|nos|ya|ayer|hoy|por|fin|desgraciadamente|el|la|mi|al|final|ahora|"
    r"j['’]ai|j['’]|je|été|nous|on|a|avons|ai|suis|hier|enfin|malheureusement|le|mon|ma|finalement|maintenant|\d+|"
    r"[-,.!:]+)",
    re.IGNORECASE,
)
"""A word that may stand before an ending without making it another's."""


_STOP = (
    r"(?![\w'’-])(?! +for (?:lent|ramadan|now|today|tonight|the (?:day|week|moment)|a (?:few|couple|bit|while|day|"
    r"week|month))\b)"
    r"(?= *(?:[.,;:!?)…–—\x00]|$)"
    r"| +(?:and|but|so|because|since|now|too|any ?more|any longer|again|over|after|before|"
    r"today|yesterday|tonight|last|this|in|on|at|for|with|when|though|as|due|thanks|forever|completely|altogether|"
    r"entirely|"
    r"a (?:day|week|month|year|while|few|couple)|two|three|four|five|\d+|by|btw|lol|haha|back|recently|finally|sadly|"
    r"und|weil|seit|im|am|gestern|heute|letzte\w*|vor|sondern|aber|\w+tag|"
    r"y|porque|por|el|la|ayer|hoy|hace|sino|pero|este|esta|et|parce|car|hier|le|il y a|en|mais|ce|cet|cette|depuis|"
    r"desde|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche)\b)"
)
"""Where an ending stops: "I sold Golf balls" says nothing of a Golf."""

_MASK = "\x01"
"""Stands for each character of the value that is looked at, so that one pattern does for all values."""

_VALUE_HERE = rf"(?:{{ARTICLE}})*{_MASK}+"
_MACRO = re.compile(r"\{([A-Z_]+)\}")


@cache
def _table() -> dict[str, tuple[str, ...]]:
    """Return the words that end the values of each predicate."""
    found: dict[str, tuple[str, ...]] = {}
    named = {"V": _VALUE_HERE}
    about: list[str] = []
    for line in files("memoranda_facts.extraction").joinpath("endings.txt").read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, is_a_name, phrase = line.partition(" = ")
        if is_a_name:
            named[name] = f"(?:{phrase})"
        elif not line.startswith(" "):
            about = line.split()
        else:
            template = line.strip()
            while _MACRO.search(template):
                template = _MACRO.sub(lambda slot: named[slot.group(1)], template)
            for predicate in about:
                found[predicate] = (*found.get(predicate, ()), template)
    return found


class _Ending:
    """A template of an ending, which is compiled for the first text that has its words."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._needed = needed(template.lower())
        self._pattern: re.Pattern[str] | None = None

    def matches(self, masked: str, lowered: str) -> Iterator[re.Match[str]]:
        """Yield where a text that has a masked value ends it; ``lowered`` is the text without capitals."""
        if not all(any(each in lowered for each in group) for group in self._needed):
            return
        if self._pattern is None:
            self._pattern = re.compile(rf"(?<!\w)(?:{self._template}){_STOP}", re.IGNORECASE)
        yield from self._pattern.finditer(masked)


@cache
def _endings(predicate: str) -> tuple[_Ending, ...]:
    """Return how the values of a predicate end."""
    return tuple(map(_Ending, _table().get(predicate, ())))


def mentioned_endings(sentence: Sentence, said: Said, known: OpenFacts) -> Iterator[Candidate]:
    """Yield the endings of what is known of the speaker and is mentioned in a sentence."""
    stated = sentence.stated[: reported_from(sentence.stated)]
    holding = known.all_of(said.speaker)
    lowered = stated.casefold()
    for fact in holding:
        for named in _names(fact, holding, lowered):
            match = _ending(fact.predicate, stated, named)
            if match is not None and not is_unreal_abroad(stated):
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


def _ending(predicate: str, stated: str, named: re.Pattern[str]) -> re.Match[str] | None:
    """Return the words of the speaker that end a value, which is named so."""
    masked = named.sub(lambda found: _MASK * len(found.group()), stated)
    about = "when_*" if predicate.startswith("when_") else predicate
    lowered = stated.lower()
    matches = (match for each in _endings(about) for match in each.matches(masked, lowered))
    return next((match for match in matches if _is_the_speakers(stated[: match.start()])), None)


def _names(fact: OpenFact, holding: list[OpenFact], lowered: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns of the words by which a sentence may mention a fact."""
    words = same_text(fact.value).removeprefix("a ").removeprefix("an ").removeprefix("the ")
    if words and words in lowered and not fact.predicate.startswith("when_"):
        yield _named(words)
    kind = _kind(fact)
    alone = kind and [_kind(each) for each in holding if each.predicate == fact.predicate].count(kind) == 1
    if kind and alone and kind in lowered:
        articles = "the|my|our|a" if fact.predicate == "drives" else "the|my|our"
        yield _named(kind, rf"(?:{articles}) ")


def _named(words: str, article: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){article}{re.escape(words)}", re.IGNORECASE)


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
