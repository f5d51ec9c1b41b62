"""The forms of a word in a vocabulary: the words that have its stem in some language.

Stemming takes most of the time of a search in a large scope, and a search needs the stems of few words. So words are
kept by how they begin, and only those are stemmed that may have the stem that is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice

from memoranda_backend.text.stemming import IRREGULAR, stemmer_of

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
