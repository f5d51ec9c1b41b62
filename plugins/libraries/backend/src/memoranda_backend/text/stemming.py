"""Word stems, as the package snowballstemmer makes them: by the language of the text, or by the script of the word.

English has Porter's algorithm, after a table of irregular forms: a question says "go" where the answer said "went", so
irregular verbs count for as much here as suffixes do. What no stemmer knows passes through. A ranking stems the words
of its scope and of its query alike: see :mod:`memoranda_backend.text.forms`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
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


_ALGORITHMS = {"english": "porter", "dutch": "dutch_porter"}
"""Stemmers that go by another name. The newer Dutch one takes "ge" out of the middle of words, and finds no more."""


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
    """Return what gives the stem of a folded word, in a text of this language; English where it is not known."""
    return WordCache(lambda word: _stem(word, language or "english")).__getitem__


stem = stemmer_of(None)


def _plain(word: str) -> str:
    if word[:1].isdigit() and word[-2:] in ("st", "nd", "rd", "th") and word[:-2].isdecimal():
        return word[:-2]
    return word[:LONGEST_TERM]


plain_word = WordCache(_plain).__getitem__
"""Return a folded word as it is stored: an ordinal number as its figure, and a very long word cut.

``7th`` is ``7``, as dates are written both ways.
"""


def _stem(word: str, language: str) -> str:
    word = plain_word(IRREGULAR.get(word, word) if language == "english" else word)
    if len(word) < 3 or not word.isalpha():
        return word
    if not word.isascii():
        language = next((name for name, codes in _BY_SCRIPT.items() if ord(word[0]) in codes), language)
    if language == "english" and not word.isascii():
        return word
    return _without_suffixes(word, language) or word  # A stemmer may leave nothing of what is all suffix to it.


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
    for name in (_ALGORITHMS.get(language, language), language):
        with suppress(KeyError):
            strip: Callable[[str], str] = stemmer(name).stemWord
            return strip
    return str


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word
