"""The rules of languages other than English. They are fewer, and about the speaker alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from memoranda_facts.extraction.grammar import LOWER, UPPER, Person
from memoranda_facts.extraction.lazy_patterns import LazyPattern
from memoranda_facts.extraction.rule_table import Rule, rules
from memoranda_facts.extraction.sentences import Sentence


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


def _clauses(joining: str, opening: str) -> re.Pattern[str]:
    begins = rf"(?:^|[,;:!…–—-]\s+|\b(?:{joining})\s+)"
    return re.compile(rf"{begins}(?:(?:{opening})(?:,|:|!)?\s+)*", re.IGNORECASE | re.MULTILINE)


def _words(some: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{some})\b", re.IGNORECASE)


def _end(following: str) -> str:
    """Return where a phrase ends: at a stop, or before one of these words."""
    return rf"(?=\s*(?:[,;:!?)…–—\x00]|\.(?!\w)|- |$)|\s+(?:{following})\b)"


_COMMON_NOUN = rf"[{LOWER}]+"
_OCCUPATION = rf"[{LOWER}]+(?: de [{LOWER}]+)?"

GERMAN = Language(
    "de",
    marks=_words("ich|wir|mir|mein|meine|ist|sind|haben|wurde"),
    clause=_clauses(
        "und|aber|denn|weil", r"ja|also|übrigens|leider|naja|ach|hallo|hi|so|jetzt|heute|gestern|inzwischen|seit \w+"
    ),
    unreal=_words(
        r"würde|würden|möchte|möchten|will|wollen|wenn|falls|ob|vielleicht|hätte|könnte|könnten|sollte|soll|sollen|fast|"
        r"beinahe|nie|niemals|glaube|denke|hoffe|sagt|sagte|meint|meinte|erzählt\w*|behauptet|angeblich|geträumt|"
        r"stell dir vor|wünschte|wäre"
    ),
    phrases={
        "END": _end(
            r"und|aber|weil|seit|mit|für|am|im|in|bei|jetzt|nun|denn|wo|der|die|das|wegen|letzte\w*|gestern|heute|vor"
        ),
        "WHEN": r"(?:gestern|heute|letzte[ns]? \w+|diese[ns]? \w+|vor \w+ \w+|im \w+|am \w+|endlich|gerade|inzwischen|"
        r"schon|leider|jetzt)",
        "NOUN": rf"[{UPPER}][{LOWER}]+",
        "COMPANY": rf"(?:der |dem |einer |einem )?[{UPPER}][\w&.-]*\w(?: [{UPPER}][\w&.-]*\w){{0,2}}",
    },
)
SPANISH = Language(
    "es",
    marks=_words(
        "yo|mi|mis|me|ya|vivo|vivimos|trabajo|soy|estoy|tengo|hemos|dejé|murió|nos|toco|juego|aprendo|vendí|ahora|rompimos|"
        "renuncié|perdí|fumo"
    ),
    clause=_clauses(
        "y|pero|porque|así que", "bueno|pues|hola|oye|ah|sí|por cierto|lamentablemente|ayer|hoy|ahora mismo"
    ),
    unreal=_words(
        "quiero|queremos|quisiera|gustaría|si|ojalá|tal vez|quizás?|podría|debería|casi|nunca|creo|pienso|espero|dice|"
        "dijo|cuenta|imagina|supongamos|a lo mejor|haría"
    ),
    phrases={
        "END": _end("y|pero|porque|con|desde|el|la|en|hace|ayer|hoy|por|para|ahora|donde|este|esta|que|hoy|anoche"),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
    },
)
FRENCH = Language(
    "fr",
    marks=_words("je|j|nous|on|mon|ma|mes|est|suis|c"),
    clause=_clauses(
        "et|mais|car|parce que|donc", "bon|bonjour|salut|alors|ah|oui|au fait|malheureusement|hier|maintenant"
    ),
    unreal=_words(
        "voudrais|voudrions|veux|aimerais|si|peut-être|pourrais|devrais|presque|jamais|crois|pense|espère|dit|disait|"
        "raconte|imagine|supposons|serais|aurais"
    ),
    phrases={
        "END": _end(
            "et|mais|parce|car|avec|depuis|le|la|en|il y a|hier|pour|dans|où|ce|cette|qui|maintenant|à|aujourd"
        ),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
    },
)


@cache
def _compiled(name: str) -> tuple[tuple[Rule, tuple[LazyPattern, ...]], ...]:
    language = next(each for each in (GERMAN, SPANISH, FRENCH) if each.name == name)
    return tuple(
        (rule, tuple(LazyPattern(template, Person.FIRST, language.phrases) for template in rule.templates))
        for rule in rules(language.name)
    )


def foreign_matches(sentence: Sentence) -> Iterator[tuple[Rule, re.Match[str]]]:
    """Yield the rules of other languages that a sentence matches, with the first match of each in a clause."""
    stated = sentence.stated
    for language in (GERMAN, SPANISH, FRENCH):
        if not language.marks.search(stated) or language.unreal.search(stated):
            continue
        for start in dict.fromkeys(found.end() for found in language.clause.finditer(stated)):
            for rule, patterns in _compiled(language.name):
                matches = (wanted.match(stated, start) for wanted in patterns)
                match = next((found for found in matches if found is not None), None)
                if match is not None:
                    yield rule, match
