"""What a scope knows about a question: whether the best results support what it asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoranda.store import RankedItem, Verdict
from memoranda_ranking.names import speaker_of
from memoranda_text.stemming import stemmer_of
from memoranda_text.terms import fold_words, query_language, query_terms

RELEVANT = 0.2
"""What the best result must score for anything to be known."""

_BEGINNING, _SHORTEST_BEGINNING = 0.7, 3
"""Which part of its letters a word must begin with to be another form of a word, and how many these are at least."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def judge(query: str, ranked: Sequence[RankedItem]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on the best results of a query, and the words of it that none of them supports."""
    unsupported = _unsupported(query, ranked)
    if not ranked or max(found.score for found in ranked) < RELEVANT:
        return "unknown", unsupported
    return ("near" if unsupported else "known"), unsupported


def _unsupported(query: str, ranked: Sequence[RankedItem]) -> tuple[str, ...]:
    """Return the words of the query, as they are written there, of which no result has any form."""
    asked = set(query_terms(query))
    found = {term for each in ranked for term in each.terms}
    said = {word for each in ranked for word in fold_words(each.item.content)}
    said.update(word for each in ranked for word in fold_words(speaker_of(each.item.name, "", each.item.content)))
    stem = stemmer_of(query_language(query))
    missing = []
    for word in dict.fromkeys(_WORD.findall(query)):
        parts = [part for part in fold_words(word) if stem(part) in asked]
        if parts and not any(stem(part) in found or _has_form(part, said) for part in parts):
            missing.append(word)
    return tuple(missing)


def _has_form(word: str, said: set[str]) -> bool:
    """Return True if a word, or another that begins like it, was said."""
    if word in said:
        return True
    beginning = word[: max(_SHORTEST_BEGINNING, round(_BEGINNING * len(word)))]
    return any(other.startswith(beginning) for other in said)
