"""Capitals for what is typed without any: many people write "i live in berlin and work at dell".

Known places get theirs wherever they stand behind a preposition. In a text without capitals, so do known names, makes
and German nouns, and words in places where only a name stands: behind "is called", behind "I work at". Whether that
states anything is for the rules to say. The length of a text stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from memoranda_facts.extraction.rule_table import words

_AFTER_A_PREPOSITION = re.compile(
    r"\b(?:in|to|from|left|visited|nach|aus|en|de|a|à)\s+(?:the )?(?=(?P<words>[a-zà-ÿ][a-zà-ÿ' -]{0,40}))"
)
_MOST_WORDS_OF_A_PLACE = 3
_CAPITAL = re.compile(r"(?!I\b)[^\W\d_a-zß-öø-ÿ]")
_WORD = re.compile(r"(?<![\w@.])[a-zß-ÿœ]+(?![\w@])")
_GERMAN = re.compile(r"\b(?:ich|wir|mein|meine|meinen|unser|unsere|hab|habe|haben|bin|mir|neue|ist)\b")
_SMALL = r"[a-zß-ÿœ]+(?:-[a-zß-ÿœ]+)?"
_ENDS = (
    r"(?=\s*(?:[,;:!?)…–—]|\.(?!\w)|-\s|$)|\s+(?:and|but|so|because|since|as|in|on|at|for|with|now|too|is|"
    r"who|which|from|"
    r"btw|lol|haha|rn|atm|yay|last|this|though|while|where|"
    r"und|aber|als|seit|in|im|am|mit|für|jetzt|gezogen|umgezogen|allergisch|angefangen|gewechselt|verkauft|aufgehört|"
    r"y|pero|como|con|desde|ahora|para|hace|en|la semana|"
    r"et|mais|comme|avec|depuis|maintenant|pour|dans|mtn)\b)"
)
_NAMES = (
    r"(?:\bname(?: is|['’]s)?|\bnamed(?: him| her| it)?|\bcalled|\b(?:can|just|please) call me|"
    r"don['’]?t call me|, call me|\bmarried to|\bdating|\bheiß(?:t|e|en)|\bnamens|\bllam(?:a|o|an)|"
    r"\bappelle(?:nt)?|\bnommée?) (?P<one>SMALL)(?=\W|$)(?: (?:and|und|y|et) (?P<two>SMALL)ENDS)?"
)
_BESIDE_RELATION = (
    r"\b(?:my|our) (?:new |late )?(?:RELATION) (?P<one>SMALL)"
    r"(?= (?:is|was|lives|works|has|loves|moved|and i|just|died)\b)"
)
_LISTED = (
    r"\b(?:sons|daughters|kids|children|boys|girls|twins|cats|dogs|kinder|söhne|töchter|katzen|hunde|hijos|hijas|gatos|"
    r"perros|enfants|filles|fils|chats|chiens),? (?:named |called )?(?P<one>SMALL)(?:, (?P<three>SMALL))?,? "
    r"(?:and|und|y|et) (?P<two>SMALL)ENDS"
)
_COMPANIES = (
    r"(?:\b(?:work|working|employed|started|job|position|TRADE) (?:at|for)|\b(?:now|im|i['’]m) at|"
    r"\b(?:arbeite?|arbeiten|jobbe|bin|jetzt|TRADE_DE|job|stelle) (?:jetzt )?(?:bei|beim|für)(?: der| dem)?|"
    r"\bbei(?= \w+ (?:angefangen|gekündigt|aufgehört)\b)|"
    r"\b(?:trabajo|trabajamos|trabajando|empecé|TRADE_ES) (?:ahora )?(?:en|para)|\bchez) "
    r"(?P<run>SMALL(?: SMALL){0,2}?)ENDS"
)
_HOMES = (
    r"(?:\b(?:live|living|based|flat|apartment|house|place) in|\b(?:wohne?|wohnen|lebe?|leben) in|\bnach(?= \w+ "
    r"(?:um)?gezogen)|\b(?:vivo|vivimos|viviendo) en|\b(?:mudé|mudamos|mudado) a|\b(?:habite|vis|vit|"
    r"habitons) (?:à|en)|"
    r"ménagé à) (?P<run>SMALL(?: SMALL){0,1}?)ENDS"
)
_CARS = (
    r"\b(?P<run>(?:MAKE)"
    r"(?: (?!(?:and|but|so|y|und|et|now|to|für|for|jetzt|maintenant|in|from)\b)[a-z][a-z0-9]+)?)(?![\w-])"
)
_GERMAN_NOUNS = (
    r"\b(?:ich|hab|bin|und) ?(?:(?:spiele?|lerne?|nehme?|studiere?|mag|liebe|trinke?|esse?|"
    r"vertrage?)(?: gerade| jetzt| "
    r"keine?n?)*|(?:fahre?|hab|habe) (?:jetzt )?(?:eine?n?|den|die|das)|(?:gegen|auf)) (?P<one>SMALL)(?=\W|$)"
    r"|\b(?:allergisch|allergie) (?:gegen|auf) (?P<two>SMALL)(?:(?:,| und) (?P<three>SMALL))?ENDS"
)


@cache
def _known() -> dict[str, str]:
    return {name.lower(): name for name in words()["KNOWN_PLACE"]}


@cache
def _words_with_capitals(*, german: bool) -> frozenset[str]:
    """Return the small letters of words that always have a capital: names, and in German, nouns."""
    lists: tuple[str, ...] = ("FIRST_NAME", "LANGUAGE", "MEDICATION")
    if german:
        lists = (
            *lists,
            "RELATION_DE",
            "PET_DE",
            "TRADE_DE",
            "NOUN_DE",
            "ILLNESS_DE",
            "CONDITION_DE",
            "DRINK_DE",
            "DIET_DE",
            "LANGUAGE_DE",
        )
    return frozenset(word.lower() for each in lists for word in words()[each] if word[0].isupper()) - {"insulin"}


@cache
def _not_names() -> frozenset[str]:
    return frozenset((*words()["NOT_A_NAME_EITHER"], *words()["NOT_NAME"]))


@cache
def _slots() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of places where a name stands, with a group for each word of it, or "run" for all."""
    lists = {
        "RELATION": "|".join((*words()["RELATION"], *words()["FRIEND"], *words()["PET_KIND"])),
        "TRADE_DE": "|".join(words()["TRADE_DE"]).lower(),
        "TRADE_ES": "|".join(words()["TRADE_ES"]),
        "TRADE": "|".join(words()["TRADE"]),
        "MAKE": "|".join(words()["MAKE"]).lower(),
        "SMALL": _SMALL,
        "ENDS": _ENDS,
    }
    fill = re.compile("|".join(lists))
    slots = (_NAMES, _BESIDE_RELATION, _LISTED, _COMPANIES, _HOMES, _CARS, _GERMAN_NOUNS)
    return tuple(re.compile(fill.sub(lambda found: lists[found.group()], slot)) for slot in slots)


def with_capitals(text: str) -> str:
    """Return a text in which what is surely a name has its capitals, as in "i live in berlin"."""
    letters = list(text)
    for start, name in _places(text):
        letters[start : start + len(name)] = name
    if _CAPITAL.search(text) is None:
        for start in _starts_of_names(text):
            letters[start] = letters[start].upper()
    return "".join(letters)


def _places(text: str) -> Iterator[tuple[int, str]]:
    for found in _AFTER_A_PREPOSITION.finditer(text):
        parts = found["words"].split(" ")[:_MOST_WORDS_OF_A_PLACE]
        tried = (" ".join(parts[:count]) for count in range(len(parts), 0, -1))
        name = next((_known()[each] for each in tried if each in _known()), None)
        if name is not None:
            yield found.start("words"), name


def _starts_of_names(text: str) -> Iterable[int]:
    known = _words_with_capitals(german=_GERMAN.search(text) is not None)
    yield from (word.start() for word in _WORD.finditer(text) if word.group() in known)
    for slot in _slots():
        for found in slot.finditer(text):
            yield from _starts_of_groups(found)


def _starts_of_groups(found: re.Match[str]) -> Iterator[int]:
    for group, value in found.groupdict().items():
        if value is None:
            continue
        parts = [(found.start(group) + part.start(), part.group()) for part in re.finditer(r"\S+", value)]
        if not any(_is_no_name(part) for _, part in parts):
            yield from (start for start, _ in parts)


def _is_no_name(word: str) -> bool:
    return word in _not_names() or word.endswith(("ing", "ly"))
