"""Character trigrams, which find forms of a query's word that its stem does not reach.

Compounds, inflections and typing errors share most of their letters with the intended word, in any language. Scripts
without spaces do not need this: their terms are groups of characters already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoranda_ranking.stemming import WordCache
from memoranda_ranking.terms import is_unspaced

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


def trigram_weights(terms: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each trigram of these terms; the trigrams of a term share its weight."""
    weights: dict[str, float] = {}
    for term, weight in terms.items():
        groups = trigrams_of(term)
        for group in sorted(groups):  # Scores are sums in this order, and must not depend on that of a set.
            weights[group] = weights.get(group, 0.0) + weight / len(groups)
    return weights


def similar_words(words: Iterable[str], terms: Iterable[str]) -> dict[str, list[str]]:
    """Return the words that may be a form of one of the terms, each with the trigrams that it shares with them.

    A form shares more than half of the trigrams of the shorter one; less is coincidence.
    """
    wanted = [groups for groups in map(trigrams_of, terms) if groups]
    every = frozenset[str]().union(*wanted)
    found: dict[str, list[str]] = {}
    for word in words:
        own = trigrams_of(word)
        if not every.isdisjoint(own):
            for groups in wanted:
                shared = groups & own
                if 2 * len(shared) > min(len(groups), len(own)):
                    found[word] = sorted(shared.union(found.get(word, ())))
    return found
