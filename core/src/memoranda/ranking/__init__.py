"""Words, neighbours, meaning: the ranking that every backend shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.ranking.calling import capitalised, taking_part
    from memoranda.ranking.candidates import (
        HEARD,
        MOST_COUNTED,
        WHOLE_SCOPE,
        Around,
        Best,
        Candidates,
        Frequencies,
        Nearest,
        OnDay,
        Question,
        Size,
        SpokenBy,
        Whole,
        WithLetters,
        best_hits,
        gather,
        gathered,
        gathered_async,
    )
    from memoranda.ranking.dates import date_terms, query_date_terms, query_dates
    from memoranda.ranking.dividing import divided, held_back, passage_at
    from memoranda.ranking.names import LONGEST_LABEL, query_without_names, speaker_of
    from memoranda.ranking.passages import Passage, Scored, Weights, are_apart
    from memoranda.ranking.results import RankedItem, Reranker
    from memoranda.ranking.scoring import rank_hybrid, rank_text
    from memoranda.ranking.terms import fold_words, index_terms, query_terms, terms_fingerprint
    from memoranda.ranking.turns import KnownTurns, Turn, conversation_key, make_turn, name_in, passage_of
    from memoranda.ranking.vectors import checked_vector, cosines, normalised, pack_vector, unpack_vector

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "calling": ["capitalised", "taking_part"],
        "candidates": [
            "HEARD", "MOST_COUNTED", "WHOLE_SCOPE", "Around", "Best", "Candidates", "Frequencies", "Nearest", "OnDay",
            "Question", "Size", "SpokenBy", "Whole", "WithLetters", "best_hits", "gather", "gathered", "gathered_async",
        ],
        "dates": ["date_terms", "query_date_terms", "query_dates"],
        "dividing": ["divided", "held_back", "passage_at"],
        "names": ["LONGEST_LABEL", "query_without_names", "speaker_of"],
        "passages": ["Passage", "Scored", "Weights", "are_apart"],
        "results": ["RankedItem", "Reranker"],
        "scoring": ["rank_hybrid", "rank_text"],
        "terms": ["fold_words", "index_terms", "query_terms", "terms_fingerprint"],
        "turns": ["KnownTurns", "Turn", "conversation_key", "make_turn", "name_in", "passage_of"],
        "vectors": ["checked_vector", "cosines", "normalised", "pack_vector", "unpack_vector"],
    },
)  # fmt: skip

__all__ = [
    "HEARD", "LONGEST_LABEL", "MOST_COUNTED", "WHOLE_SCOPE", "Around", "Best", "Candidates", "Frequencies",
    "KnownTurns", "Nearest", "OnDay", "Passage", "Question", "RankedItem", "Reranker", "Scored", "Size", "SpokenBy",
    "Turn", "Weights", "Whole", "WithLetters", "are_apart", "best_hits", "capitalised", "checked_vector",
    "conversation_key", "cosines", "date_terms", "divided", "fold_words", "gather", "gathered", "gathered_async",
    "held_back", "index_terms", "make_turn", "name_in", "normalised", "pack_vector", "passage_at", "passage_of",
    "query_date_terms", "query_dates", "query_terms", "query_without_names", "rank_hybrid", "rank_text", "speaker_of",
    "taking_part", "terms_fingerprint", "unpack_vector",
]  # fmt: skip
