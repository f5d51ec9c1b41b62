"""Word stems, as the package snowballstemmer makes them, and the forms of a word in a vocabulary.

A stem is made by the language of the text, or by the script of the word. English has Porter's algorithm, after a table
of irregular forms: a question says "go" where the answer said "went", so irregular verbs count for as much here as
suffixes do. What no stemmer knows passes through. A ranking stems the words of its scope and of its query alike.

The forms of a word are those that have its stem in some language. Stemming takes most of the time of a search in a
large scope, and a search needs the stems of few words. So words are kept by how they begin, and only those are stemmed
that may have the stem that is looked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
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


_BEGINNING = 2
"""How many letters a word has in common with its stem, at least, if both are that long."""

_CHANGED = 2
"""How many letters at the end of a stem may differ from those of the word."""

_PREFIXED = re.compile("[\u0600-\u06ff\u0b80-\u0bff]")
"""Arabic and Tamil letters: stems of these leave out prefixes too, so that all words of such a script may have one."""

_UMLAUTS = re.compile("([ao])e|(?<!q)(u)e")
"""German vowels that are written as two letters, and are one in a stem."""


_FEW_WORDS = 64
"""So many words are stemmed one by one, where they begin like a stem that is looked for."""

_MOST_STEMS = 4_096
"""For how many stems the words that were found are kept."""


class WordForms:
    """The words of one vocabulary, which only grows. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._by_beginning: dict[str, list[str]] = {}
        self._found: dict[tuple[str | None, ...], tuple[int, list[int]]] = {}
        """The numbers of the words that have a stem, and among how many words they were looked for."""

    def of(
        self, vocabulary: Mapping[str, int], stem: str, language: str | None, written: Sequence[str] = ()
    ) -> list[int]:
        """Return the numbers of the words of a vocabulary that have a stem; ``written`` are some that surely do."""
        self._add(vocabulary)
        key = stem, language, *written
        seen, found = self._found.get(key, (0, []))
        if seen < len(self._words):
            named = (stem, *written, *_irregular_forms().get(stem, ()))
            new = [number for word in named if (number := vocabulary.get(word, -1)) >= seen]
            new += [vocabulary[word] for word in self._candidates(stem, language, seen)]
            stemmed = stemmer_of(language)
            found = found + [number for number in dict.fromkeys(new) if stemmed(self._words[number]) == stem]
            if len(self._found) >= _MOST_STEMS:
                self._found.clear()
            self._found[key] = len(self._words), found
        return found

    def _add(self, vocabulary: Mapping[str, int]) -> None:
        if len(self._words) == len(vocabulary):  # To find out that nothing follows, a slice walks through all of them.
            return
        for word in islice(vocabulary, len(self._words), None):
            self._words.append(word)
            self._by_beginning.setdefault(_beginning(word), []).append(word)

    def _candidates(self, stem: str, language: str | None, seen: int) -> Collection[str]:
        """Return the words that may have a stem, but for the first ones, which were looked at before."""
        beginning = _beginning(stem)
        words = self._words[seen:] if seen else self._by_beginning.get(beginning, [])
        if len(beginning) > _BEGINNING:
            return [word for word in words if _beginning(word) == beginning]
        start = stem[: max(_BEGINNING, len(stem) - _CHANGED)]
        if language == "german":
            if not seen:
                words = [*words, *self._by_beginning.get(f"{stem[:1]}e", ())]
            return [word for word in words if _UMLAUTS.sub(r"\1\2", word).startswith(start)]
        return [word for word in words if word.startswith(start)]


def having_any(words: Sequence[str], stems: Mapping[str | None, Collection[str]]) -> list[bool]:
    """Return which of some distinct words have any of some stems, which are given by language."""
    if len(words) <= _FEW_WORDS:
        beginnings = {language: _beginnings(tuple(some), language) for language, some in stems.items()}
        return [
            any(
                (word in IRREGULAR or _beginning(word) in beginnings[language]) and stemmer_of(language)(word) in some
                for language, some in stems.items()
            )
            for word in words
        ]
    forms, vocabulary = WordForms(), {word: number for number, word in enumerate(words)}
    having = [False] * len(words)
    for language, some in stems.items():
        for stem in some:
            for number in forms.of(vocabulary, stem, language):
                having[number] = True
    return having


@lru_cache(maxsize=256)
def _beginnings(stems: Sequence[str], language: str | None) -> frozenset[str]:
    """Return what the words that have one of these stems may be kept under."""
    also = [f"{stem[:1]}e" for stem in stems] if language == "german" else []
    return frozenset([*map(_beginning, stems), *also])


def _beginning(word: str) -> str:
    """Return what a word is kept under: its first letters, or the name of a script whose stems leave out prefixes."""
    if word.isascii() or _PREFIXED.match(word) is None:
        return word[:_BEGINNING]
    return "arabic" if word[0] < "\u0b80" else "tamil"


@cache
def _irregular_forms() -> dict[str, list[str]]:
    """Return the English words, by their stems, that need not begin as these do."""
    stem = stemmer_of(None)
    forms: dict[str, list[str]] = {}
    for form in IRREGULAR:
        forms.setdefault(stem(form), []).append(form)
    return forms
