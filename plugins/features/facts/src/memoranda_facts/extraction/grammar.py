"""The grammar that the rules are written in, and the rules of other languages.

A template stands for a statement about the speaker or about a name, and becomes one pattern for each person. ``{S}``
is the subject with adverbs; ``{BE}``, ``{WAS}`` and ``{HAVE}`` are the subject with a verb; ``{MY}`` is a possessive;
``<live>`` is a verb in its right form; other names in capitals are noun phrases and lists of words. ``{value=PLACE}``
is a group of that name. ``{END}`` is where a phrase may end.

The rules of other languages are fewer than the English ones, and about the speaker alone. Compiling all templates
takes seconds, and most texts need only a few: "I moved to Porto" has no word for a diet. So a template is compiled when
a text has what it needs: its literal words, one alternative of its groups, and one word of the lists that it names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Literal

from memoranda_facts.extraction.rule_table import Rule, alternatives, phrase, phrases, rules, words
from memoranda_facts.extraction.sentences import DAY, SAID_DATE, Sentence


class Person(Enum):
    """Who a statement is about: the speaker, the one spoken to, or someone who is named."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"


UPPER, LOWER = phrase("UPPER"), phrase("LOWER")
"""The letters of Western Europe. Patterns with those of all alphabets take twice as long to compile."""

_FURTHER_LETTER = re.compile("[\u0100-\u0152\u0154-\u024f\u0370-\u052f\u1e00-\u1eff]")
"""Other Latin letters, Greek and Cyrillic."""

_SAID = {"DAY": DAY, "SAID_DATE": SAID_DATE}
_PHRASES = {
    **{name: alternatives(name) for name in words() if name != "NOT_NAME"},
    **_SAID,
    **{name: phrase(name, **_SAID) for name in phrases("grammar.txt")},
}
_ADVERBS, _OTHER = _PHRASES["ADVERBS"], _PHRASES["OTHER"]
_SUBJECTS = {
    Person.FIRST: {
        "SUBJECT": r"[Ii]\b|[Ii]m\b|[Ww]e\b",
        "S": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: do)?",
        "BE": rf"(?:[Ii](?: am|['’]?m)|[Ww]e(?: are|['’]re)){_ADVERBS}",
        "WAS": rf"(?:[Ii] was|[Ww]e were){_ADVERBS}",
        "HAVE": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: have(?: got)?|['’]ve got){_ADVERBS}",
        "MY": "(?:[Mm]y|[Oo]ur)",
        "NOT": r"(?:don['’]?t|do not)",
        "BE_NOT": r"(?:[Ii]['’]?m not|[Ii] am not|[Ii] not|[Ww]e['’]re not|[Ww]e aren['’]t|[Ww]e are not)",
    },
    Person.SECOND: {
        "SUBJECT": r"[Yy]ou\b",
        "S": rf"[Yy]ou{_ADVERBS}",
        "BE": rf"[Yy]ou(?: are|['’]re){_ADVERBS}",
        "WAS": rf"[Yy]ou were{_ADVERBS}",
        "HAVE": rf"[Yy]ou{_ADVERBS}(?: have(?: got)?|['’]ve got){_ADVERBS}",
        "MY": "[Yy]our",
        "NOT": r"(?:don['’]t|do not)",
        "BE_NOT": r"(?:[Yy]ou['’]re not|[Yy]ou aren['’]t|[Yy]ou are not)",
    },
    Person.THIRD: {
        "SUBJECT": _OTHER,
        "S": rf"{_OTHER}{_ADVERBS}",
        "BE": rf"{_OTHER}(?: is|['’]s){_ADVERBS}",
        "WAS": rf"{_OTHER} was{_ADVERBS}",
        "HAVE": rf"{_OTHER}{_ADVERBS}(?: has(?: got)?|['’]s got){_ADVERBS}",
        "MY": rf"(?P<who>[Mm]y {alternatives('ONLY_ONE')}|{_PHRASES['A_NAME']})['’]s",
        "NOT": r"(?:doesn['’]t|does not)",
        "BE_NOT": rf"{_OTHER} (?:isn['’]t|is not)",
    },
}
_SLOT = re.compile(r"\{(?:(?P<group>[a-z]+)=)?(?P<name>[A-Z_]+)\}")
_VERB = re.compile(r"(?<!\?P)<([a-z]+)>")

_CLAUSE = re.compile(phrase("CLAUSE"), re.IGNORECASE)
_OPENING = re.compile(phrase("OPENING", **_SAID), re.IGNORECASE)


def clause_starts(text: str) -> list[int]:
    """Return where the clauses of a sentence start, with and without words such as "well" and "last year"."""
    starts = []
    for found in _CLAUSE.finditer(text):
        start = found.end()
        starts.append(start)
        while (opening := _OPENING.match(text, start)) is not None:
            start = opening.end()
            starts.append(start)
    return list(dict.fromkeys(starts))


def has_further_letters(text: str) -> bool:
    """Return True if a text has letters that only patterns for all alphabets know."""
    return _FURTHER_LETTER.search(text) is not None


@cache
def letters(category: Literal["Lu", "Ll"]) -> str:
    """Return the capitals, or the small letters, of all alphabets, as a set of a pattern."""
    further = (chr(code) for code in range(0x100, 0x1F00) if _FURTHER_LETTER.match(chr(code)))
    own = UPPER if category == "Lu" else LOWER
    return own + "".join(letter for letter in further if unicodedata.category(letter) == category)


def opening(person: Person, *, possessive: bool, all_alphabets: bool) -> re.Pattern[str]:
    """Return the pattern of a subject, or of a possessive: a clause that does not open with it needs no rule tried."""
    return _compiled(_SUBJECTS[person]["MY" if possessive else "SUBJECT"], all_alphabets=all_alphabets)


def pattern(
    template: str, person: Person, further: Mapping[str, str] | None = None, *, all_alphabets: bool = False
) -> re.Pattern[str]:
    """Return the pattern of a template for one person; ``further`` are phrases of another language."""
    phrases = _PHRASES | _SUBJECTS[person] | dict(further or {})

    def filled(slot: re.Match[str]) -> str:
        phrase = phrases[slot["name"]]
        return f"(?P<{slot['group']}>{phrase})" if slot["group"] else phrase

    source = _VERB.sub(lambda verb: _inflected(verb.group(1), person), _SLOT.sub(filled, template))
    return _compiled(source, all_alphabets=all_alphabets)


def _compiled(source: str, *, all_alphabets: bool) -> re.Pattern[str]:
    if all_alphabets:
        source = source.replace(UPPER, letters("Lu")).replace(LOWER, letters("Ll"))
    return re.compile(source)


def _inflected(verb: str, person: Person) -> str:
    if person is not Person.THIRD:
        return verb
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "s", "x", "o")) else f"{verb}s"


Needed = tuple[tuple[str, ...], ...]
"""Of each of these groups, one text must be there."""

_SHORTEST = 3
"""A literal of fewer letters is in nearly every text."""

_FEW = 3
"""So many texts are looked for in less time than a pattern takes to fail."""

_LISTS_OF = {"OCCUPATION": "TRADE", "PET": "PET_KIND"}
"""Phrases that end with a word of a list."""

_TOKEN = re.compile(
    r"\{(?:[a-z]+=)?(?P<slot>[A-Z_]+)\}|<(?P<verb>[a-z]+)>|(?P<group>\()|(?P<set>\[(?:\\.|[^\]\\])*\])"
    r"|(?P<escape>\\.)|(?P<literal>[A-Za-zà-ÿœ '’-])|(?P<other>.)"
)
_QUANTIFIER = re.compile(r"[?*+]|\{\d*,?\d*\}")


class LazyPattern:
    """The pattern of a template for one person; ``further`` are phrases of another language."""

    def __init__(self, template: str, person: Person, further: Mapping[str, str] | None = None) -> None:
        self._template, self._person, self._further = template, person, further
        self._needed = needed(template, frozenset(further or ()))
        self._compiled: dict[bool, re.Pattern[str]] = {}

    def match(self, text: str, start: int) -> re.Match[str] | None:
        """Return the match that begins at a place, if there is one."""
        found = self._ready(text)
        return None if found is None else found.match(text, start)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        found = self._ready(text)
        return iter(()) if found is None else found.finditer(text)

    def _ready(self, text: str) -> re.Pattern[str] | None:
        """Return the pattern, compiled if need be; None if it cannot match this text."""
        for group in self._needed:
            for each in group:
                if each in text:
                    break
            else:
                return None
        all_alphabets = has_further_letters(text)
        if all_alphabets not in self._compiled:
            self._compiled[all_alphabets] = pattern(
                self._template, self._person, self._further, all_alphabets=all_alphabets
            )
            # From now on, trying it takes less time than looking for each word of a list.
            self._needed = tuple(group for group in self._needed if len(group) <= _FEW)
        return self._compiled[all_alphabets]


@cache
def needed(template: str, own: frozenset[str] = frozenset()) -> Needed:
    """Return what every text has that a template matches; ``own`` are phrases that mean something else here.

    Texts that are shorter come first: they are found sooner, and most texts lack one of them.
    """
    groups = dict.fromkeys(_needed(template, own))
    return tuple(sorted(groups, key=len))


def _needed(template: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    run, place = "", 0
    while place < len(template):
        token = _TOKEN.match(template, place)
        assert token is not None
        place = token.end()
        inner = ""
        if token["group"]:
            inner, place = _group(template, place)
        quantifier = _QUANTIFIER.match(template, place)
        if quantifier is not None:
            place = quantifier.end()
        if token["literal"] and quantifier is None:
            run += token["literal"]
            continue
        if token["verb"] and quantifier is None:
            run += token["verb"].removesuffix("y")  # "study" becomes "studies".
        yield from _literal(run)
        run = ""
        is_certain = quantifier is None or quantifier.group() == "+"
        if token["slot"] and is_certain:
            yield from _listed(token["slot"], own)
        if inner and is_certain:
            yield from _alternatives(inner, own)
    yield from _literal(run)


def _literal(run: str) -> Iterator[tuple[str, ...]]:
    text = run.strip()
    if len(text) >= _SHORTEST:
        yield (text,)


def _listed(slot: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    name = _LISTS_OF.get(slot, slot)
    if slot not in own and name in words():
        yield words()[name]


def _alternatives(inner: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield what a group of alternatives needs: one text of each of them, unless one needs nothing."""
    found: list[str] = []
    for each in _split(inner):
        needs: list[tuple[str, ...]] = list(_needed(each, own))
        if not needs:
            return
        best = min(needs, key=lambda group: (len(group), -len(group[0])))
        found += best
    yield tuple(found)


def _group(template: str, start: int) -> tuple[str, int]:
    """Return what a group holds that must be there, empty for a look-around, and where it ends."""
    depth, place = 1, start
    while depth:
        token = _TOKEN.match(template, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        place = token.end()
    inner = template[start : place - 1]
    if inner.startswith(("?=", "?!", "?<=", "?<!", "?i:")):
        return "", place
    return re.sub(r"^\?(?::|P<\w+>)", "", inner), place


def _split(inner: str) -> Sequence[str]:
    parts, depth, last, place = [], 0, 0, 0
    while place < len(inner):
        token = _TOKEN.match(inner, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        if token.group() == "|" and depth == 0:
            parts.append(inner[last:place])
            last = token.end()
        place = token.end()
    return [*parts, inner[last:]]


@dataclass(frozen=True, slots=True)
class Language:
    """How a language is recognised, where its clauses begin, and which words make a sentence unreal or another's.

    ``phrases`` are what its templates have beside those of the grammar; ``END`` is where a phrase may end.
    """

    name: str
    marks: re.Pattern[str]
    clause: re.Pattern[str]
    unreal: re.Pattern[str]
    phrases: Mapping[str, str]
    verb_first: re.Pattern[str] | None = None
    """The verb and the speaker in the order that they have behind an adverb, if that is another."""


def _language(name: str, verb_first: re.Pattern[str] | None = None) -> Language:
    """Return a language by its patterns in ``patterns.txt``, whose names end with its own."""
    ending = f"_{name.upper()}"
    own = {each.removesuffix(ending): phrase(each) for each in phrases() if each.endswith(ending)}
    begins = rf"(?:^|[,;:!…–—-]\s+|\b(?:{own.pop('JOINING')})\s+)"
    clause = re.compile(rf"{begins}(?:(?:{own.pop('OPENING')})(?:,|:|!)?\s+)*", re.IGNORECASE | re.MULTILINE)
    marks, unreal = (re.compile(rf"\b(?:{own.pop(words)})\b", re.IGNORECASE) for words in ("MARKS", "UNREAL"))
    return Language(name, marks, clause, unreal, own, verb_first)


_LANGUAGES = {
    "de": _language("de", re.compile(rf"([{LOWER}]+) (ich|wir)\b")),
    "es": _language("es"),
    "fr": _language("fr"),
}


@cache
def _rules_of(name: str) -> tuple[tuple[Rule, tuple[LazyPattern, ...]], ...]:
    language = _LANGUAGES[name]
    return tuple(
        (rule, tuple(LazyPattern(template, Person.FIRST, language.phrases) for template in rule.templates))
        for rule in rules(language.name)
    )


def foreign_matches(sentence: Sentence) -> Iterator[tuple[Rule, re.Match[str]]]:
    """Yield the rules of other languages that a sentence matches, with the first match of each in a clause."""
    stated = sentence.stated
    for language in _LANGUAGES.values():
        if not language.marks.search(stated) or language.unreal.search(stated):
            continue
        for start in dict.fromkeys(found.end() for found in language.clause.finditer(stated)):
            texts = _in_both_orders(stated, start, language)
            for rule, patterns in _rules_of(language.name):
                matches = (wanted.match(text, start) for text in texts for wanted in patterns)
                match = next((found for found in matches if found is not None), None)
                if match is not None:
                    yield rule, match


def _in_both_orders(stated: str, start: int, language: Language) -> list[str]:
    """Return a sentence, and as it is without the adverb before a clause: "seit Mai lebe ich" says "ich lebe".

    All places in it stay the same.
    """
    inverted = language.verb_first.match(stated, start) if language.verb_first is not None and start else None
    if inverted is None:
        return [stated]
    verb, speaker = inverted.groups()
    return [stated, f"{stated[:start]}{speaker} {verb}{stated[inverted.end() :]}"]
