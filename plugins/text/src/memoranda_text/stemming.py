"""Word stems, as the package snowballstemmer makes them: by the language of the text, or by the script of the word.

English has Porter's algorithm, after a table of irregular forms: a question says "go" where the answer said "went", so
irregular verbs count for as much here as suffixes do. What no stemmer knows passes through; index and query treat it
alike, and where they were taken for different languages, the letters still match.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TypeVar

ResultT = TypeVar("ResultT")

IRREGULAR: dict[str, str] = {
    form: base
    for line in (files(__package__) / "irregular.txt").read_text(encoding="utf-8").splitlines()[1:]
    for base, *forms in (group.split() for group in line.split("|"))
    for form in forms
}

LONGEST_TERM = 40
"""Longer words (encoded data, mostly) are cut here: an index need not carry them whole."""


_BY_SCRIPT = {
    "greek": range(0x370, 0x400),
    "russian": range(0x400, 0x500),
    "armenian": range(0x530, 0x590),
    "arabic": range(0x600, 0x700),
    "hindi": range(0x900, 0x980),
    "tamil": range(0xB80, 0xC00),
}
"""Scripts, as the codes of their letters, that have a stemmer of their own whatever the text around."""


class WordCache(dict[str, ResultT]):
    """A bounded cache of results by word; faster than ``functools.lru_cache``."""

    most = 1 << 16

    def __init__(self, make: Callable[[str], ResultT]) -> None:
        self._make = make

    def __missing__(self, word: str) -> ResultT:
        if len(self) >= self.most:
            self.clear()
        found = self[word] = self._make(word)
        return found


@cache
def stemmer_of(language: str | None) -> Callable[[str], str]:
    """Return what gives the stem of a folded word, in a text of this language; English where it is not known.

    An ordinal number becomes its figure: ``7th`` is ``7``, as dates are written both ways.
    """
    return WordCache(lambda word: _stem(word, language or "english")).__getitem__


stem = stemmer_of(None)


def _stem(word: str, language: str) -> str:
    word = (IRREGULAR.get(word, word) if language == "english" else word)[:LONGEST_TERM]
    if len(word) < 3 or not word.isalpha():
        return _without_ordinal(word)
    if not word.isascii():
        language = next((name for name, codes in _BY_SCRIPT.items() if ord(word[0]) in codes), language)
    if language == "english" and not word.isascii():
        return word
    return _without_suffixes(word, language) or word  # A stemmer may leave nothing of what is all suffix to it.


def _without_ordinal(word: str) -> str:
    if word[:1].isdigit() and word[-2:] in ("st", "nd", "rd", "th") and word[:-2].isdecimal():
        return word[:-2]
    return word


class _Stemmers(threading.local):
    """The stemmers of one thread, by language.

    One of them keeps the word that it works on in itself: threads that shared it would get each other's stems.
    """

    def __init__(self) -> None:
        self.by_language: dict[str, Callable[[str], str]] = {}


_stemmers = _Stemmers()


def _without_suffixes(word: str, language: str) -> str:
    strip = _stemmers.by_language.get(language)
    if strip is None:
        strip = _stemmers.by_language[language] = _new_stemmer(language)
    return strip(word)


def _new_stemmer(language: str) -> Callable[[str], str]:
    """Return a new stemmer of the package snowballstemmer, which every backend brings.

    Without it English plurals are all. A release of it that does not know the language leaves words as they are.
    """
    try:
        from snowballstemmer import stemmer
    except ImportError:
        return _singular if language == "english" else str
    try:
        strip: Callable[[str], str] = stemmer("porter" if language == "english" else language).stemWord
    except KeyError:
        return str
    return strip


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word
