"""Words, neighbours, meaning: the ranking that every backend shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.ranking.candidates import (
        MOST_COUNTED,
        MOST_HITS,
        NEAREST,
        NEWEST_FOUND,
        WHOLE_SCOPE,
        beginning,
        best_hits,
        rarity,
        turns_around,
    )
    from memoranda.ranking.dates import date_terms, query_date_terms, query_dates
    from memoranda.ranking.fusion import fuse
    from memoranda.ranking.names import query_without_names, speaker_of
    from memoranda.ranking.passages import Passage, Scored, Weights
    from memoranda.ranking.results import RankedItem, Reranker
    from memoranda.ranking.scopes import conversation_key, make_passage, passage_of
    from memoranda.ranking.scoring import rank_hybrid, rank_text
    from memoranda.ranking.terms import fold_words, index_terms, query_terms, terms_fingerprint
    from memoranda.ranking.vectors import checked_vector, cosines, normalised, pack_vector, unpack_vector

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "candidates": [
            "MOST_COUNTED",
            "MOST_HITS",
            "NEAREST",
            "NEWEST_FOUND",
            "WHOLE_SCOPE",
            "beginning",
            "best_hits",
            "rarity",
            "turns_around",
        ],
        "dates": ["date_terms", "query_date_terms", "query_dates"],
        "fusion": ["fuse"],
        "names": ["query_without_names", "speaker_of"],
        "passages": ["Passage", "Scored", "Weights"],
        "results": ["RankedItem", "Reranker"],
        "scopes": ["conversation_key", "make_passage", "passage_of"],
        "scoring": ["rank_hybrid", "rank_text"],
        "terms": ["fold_words", "index_terms", "query_terms", "terms_fingerprint"],
        "vectors": ["checked_vector", "cosines", "normalised", "pack_vector", "unpack_vector"],
    },
)

__all__ = [
    "MOST_COUNTED",
    "MOST_HITS",
    "NEAREST",
    "NEWEST_FOUND",
    "WHOLE_SCOPE",
    "Passage",
    "RankedItem",
    "Reranker",
    "Scored",
    "Weights",
    "beginning",
    "best_hits",
    "checked_vector",
    "conversation_key",
    "cosines",
    "date_terms",
    "fold_words",
    "fuse",
    "index_terms",
    "make_passage",
    "normalised",
    "pack_vector",
    "passage_of",
    "query_date_terms",
    "query_dates",
    "query_terms",
    "query_without_names",
    "rank_hybrid",
    "rank_text",
    "rarity",
    "speaker_of",
    "terms_fingerprint",
    "turns_around",
    "unpack_vector",
]
