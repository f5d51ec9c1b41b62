"""The forms of a word in a vocabulary: the words that have its stem in some language.

Stemming takes most of the time of a search in a large scope, and a search needs the stems of few words. So words are
kept by how they begin, and only those are stemmed that may have the stem that is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
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


class WordForms:
    """The words of one vocabulary, which only grows. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._known = 0
        self._by_beginning: dict[str, list[str]] = {}
        self._found: dict[tuple[str | None, ...], list[int]] = {}

    def of(
        self, vocabulary: Mapping[str, int], stem: str, language: str | None, written: Sequence[str] = ()
    ) -> list[int]:
        """Return the numbers of the words of a vocabulary that have a stem; ``written`` are some that surely do."""
        self._add(vocabulary)
        key = stem, language, *written
        if key not in self._found:
            stemmed = stemmer_of(language)
            candidates = dict.fromkeys((stem, *written, *self._candidates(stem, language)))
            self._found[key] = [vocabulary[word] for word in candidates if word in vocabulary and stemmed(word) == stem]
        return self._found[key]

    def _add(self, vocabulary: Mapping[str, int]) -> None:
        if self._known == len(vocabulary):
            return
        for word in islice(vocabulary, self._known, None):
            self._by_beginning.setdefault(_beginning(word), []).append(word)
        self._known = len(vocabulary)
        self._found.clear()

    def _candidates(self, stem: str, language: str | None) -> Collection[str]:
        beginning = _beginning(stem)
        words = self._by_beginning.get(beginning, [])
        if len(beginning) > _BEGINNING:
            return words
        start = stem[: max(_BEGINNING, len(stem) - _CHANGED)]
        if language == "german":
            words = [*words, *self._by_beginning.get(f"{stem[:1]}e", ())]
            return [word for word in words if _UMLAUTS.sub(r"\1\2", word).startswith(start)]
        found = [word for word in words if word.startswith(start)]
        return [*found, *_irregular_forms().get(stem, ())] if language in (None, "english") else found


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
