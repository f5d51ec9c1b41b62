"""Character trigrams, which find forms of a query's word that its stem does not reach.

Compounds, inflections and typing errors share most of their letters with the intended word, in any language. Scripts
without spaces do not need this: their terms are groups of characters already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.postings import Column, Postings
from memoranda_backend.text.stemming import WordCache
from memoranda_backend.text.terms import is_unspaced

_SIZE = 3


def _trigrams(term: str) -> frozenset[str]:
    if is_unspaced(term) or any(map(str.isdigit, term)):
        return frozenset()
    framed = f"^{term}$"
    return frozenset(framed[at : at + _SIZE] for at in range(len(framed) - _SIZE + 1))


trigrams_of = WordCache(_trigrams).__getitem__
"""Return the trigrams of a term, including its beginning and end; none for unspaced scripts.

A term with digits has none either: "room12" is not a form of "room13".
"""


class Spellings:
    """The words of a vocabulary by their trigrams."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._words = Postings()
        self._sizes = Column(np.int32)

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        return self._words.size + self._sizes.size + 60 * len(self._groups)

    def add(self, vocabulary: Mapping[str, int]) -> None:
        """Add the words of a vocabulary that are not known yet; these are its last ones."""
        known = self._sizes.used
        if known == len(vocabulary):
            return
        codes, words, sizes = list[int](), list[int](), list[int]()
        for number, word in enumerate(islice(vocabulary, known, None), start=known):
            own = trigrams_of(word)
            sizes.append(len(own))
            codes += [self._groups.setdefault(group, len(self._groups)) for group in own]
            words += [number] * len(own)
        self._sizes.extend(sizes)
        self._words.extend(codes, words)

    def like(self, terms: Iterable[str], least: float) -> tuple[NDArray[Any], NDArray[Any], int]:
        """Return pairs of a group of letters that terms have and a word that has it, and how many groups there are.

        A word must share more than the part ``least`` of the groups that the shorter of the two has, word or terms.
        """
        own = sorted(frozenset().union(*map(trigrams_of, terms)))
        groups, words = self._words.of(
            np.array([self._groups.get(group, len(self._groups)) for group in own], np.int64)
        )
        shared = np.bincount(words, minlength=self._sizes.used)
        alike = shared > least * np.minimum(self._sizes.values, len(own))
        return groups[alike[words]], words[alike[words]], len(own)
