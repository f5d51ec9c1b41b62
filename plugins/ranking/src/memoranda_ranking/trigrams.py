"""Groups of letters, by which a word of the query is found in forms that its stem does not reach.

Compounds, inflections and typing errors share most of their letters with the word that was meant, in any language.
Scripts without spaces need none of this: their terms are groups of letters already.
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
"""Return the groups of three letters of a term, with its beginning and end; none of unspaced scripts.

Nor has a term with figures any: "room12" is no form of "room13".
"""


def trigram_weights(terms: Mapping[str, float]) -> dict[str, float]:
    """Return how much each group of these terms counts, where all groups of a term together count as the term does."""
    weights: dict[str, float] = {}
    for term, weight in terms.items():
        groups = trigrams_of(term)
        for group in sorted(groups):  # Scores are sums in this order, and must not depend on that of a set.
            weights[group] = weights.get(group, 0.0) + weight / len(groups)
    return weights


def similar_words(words: Iterable[str], terms: Iterable[str]) -> dict[str, list[str]]:
    """Return the words that may be a form of one of the terms, each with the groups that it shares with these.

    A form shares more than half of the groups that the shorter of both has; less is coincidence.
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
