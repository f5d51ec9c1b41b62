"""What people type, as rules read it: letters composed, accents and apostrophes where they belong, no emojis.

Many write "jai demenage" and "deje el yoga". A word that means something else without its accent stays as it is, unless
the word before it tells which one is meant: "je quitte" and "j'ai quitte".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from memoranda_facts.extraction.rule_table import words

_AS_READ = re.compile(r"[\x00-\x7f¡-¬®-˿‐-‧‰-⁞]*")
"""Characters that rules read as they are; none of them joins another."""

_FIRST_EMOJI = 0x2600
_WORD = re.compile(r"[^\W\d_]+")
_LAUGHTER = re.compile(
    r"(?:lol+|lmao|rofl|a?(?:ha){2,}h?|(?:he){2,}|(?:hi){2,}|(?:ja){2,}|(?:je){2,}|mdr+|ptdr|xd+)", re.IGNORECASE
)
_PAUSE = ","
"""Stands for an emoji or a laugh, which ends a phrase, but no sentence: "I moved to Mars lol just kidding"."""

_AUXILIARIES = frozenset(("ai", "as", "a", "avons", "ont", "suis", "est", "sommes", "cest", "jai"))
"""The word before a French participle."""

_BETWEEN = frozenset(("ete", "été", "plus", "pas", "enfin", "deja", "déjà", "tous", "finalement", "aussi"))
"""Words that may stand between an auxiliary and its participle."""

_BEFORE_A_PLACE = frozenset(
    (
        *("habite", "jhabite", "vis", "vit", "vivre", "habitons", "demenage", "déménagé", "emmenage", "emménagé"),
        *("installe", "installé", "installee", "installée", "allergique"),
    )
)
"""French words behind which "a" is "à"."""


def readable(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as it is meant, without invisible characters, and where it stood.

    The numbers are the place in the original of each character, and of the end; none if the text is as it was.
    """
    places: Sequence[int] = ()
    if not _AS_READ.fullmatch(text):
        text, places = _composed(text)
    return _respelled(text, places)


def _composed(text: str) -> tuple[str, list[int]]:
    read: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        kind = unicodedata.category(character)
        if kind == "Cf":
            continue
        if kind in ("So", "Sk", "Mn") and ord(character) >= _FIRST_EMOJI:
            if not read or not read[-1].isspace():
                continue
            character = _PAUSE if len(read) > 1 and read[-2].isalnum() else " "
            read.pop()
            place = places.pop()
        elif unicodedata.combining(character) and read:
            composed = unicodedata.normalize("NFC", read[-1] + character)
            if len(composed) == 1:
                read[-1] = composed
                continue
        read.append({"Zs": " ", "Zl": "\n", "Zp": "\n"}.get(kind, character))
        places.append(place)
    return "".join(read), [*places, len(text)]


def _respelled(text: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    """Return a text whose words have their accents and apostrophes, and where its characters stood."""
    read: list[str] = []
    moved: list[int] = []
    copied = 0
    before = ""
    for found in _WORD.finditer(text):
        word = found.group().lower()
        meant = _meant(word, before)
        if word not in _BETWEEN:
            before = word
        if meant is None:
            continue
        start, end = found.span()
        if meant == _PAUSE and start and text[start - 1] == " ":
            start -= 1
        spelled = meant.capitalize() if found.group()[0].isupper() else meant
        read += (text[copied:start], spelled)
        moved += range(copied, start)
        moved += (min(start + place, end - 1) for place in range(len(spelled)))
        copied = end
    if not copied:
        return text, places
    read.append(text[copied:])
    moved += range(copied, len(text) + 1)
    return "".join(read), [places[place] for place in moved] if places else moved


def _meant(word: str, before: str) -> str | None:
    """Return how a word is spelled, if it is spelled otherwise; ``before`` is the word before it."""
    if word in _spellings():
        return _spellings()[word]
    if before in _AUXILIARIES and word in _participles():
        return _participles()[word]
    if word == "a" and before in _BEFORE_A_PLACE:
        return "à"
    return _PAUSE if _LAUGHTER.fullmatch(word) else None


@cache
def _spellings() -> dict[str, str]:
    """Return words that mean nothing else without their accents and apostrophes, by how they are typed without."""
    spelled = {_plain(word): word for word in words()["ACCENTED"]} | {
        word.replace("'", ""): word for word in words()["APOSTROPHED"]
    }
    return spelled | {typed: meant for pair in words()["TYPED_OTHERWISE"] for typed, meant in [pair.split(" = ")]}


@cache
def _participles() -> dict[str, str]:
    return {_plain(word): word for word in words()["PARTICIPLE_FR"]}


def _plain(word: str) -> str:
    """Return a word without accents."""
    return "".join(each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))
