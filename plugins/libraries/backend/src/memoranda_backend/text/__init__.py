"""How text becomes terms and passages, for every index and ranking: folding, stemming, and word lists by language."""

from __future__ import annotations

from memoranda_backend.text.telling import (
    MANY_TOLD,
    MUCH_TOLD,
    asks_about_self,
    has_statement,
    how_telling,
    is_passing_remark,
    is_request,
    is_small_talk,
    statements,
)
from memoranda_backend.text.terms import (
    divided,
    fold_words,
    held_back,
    index_terms,
    index_words,
    is_unspaced,
    made_by_this_version,
    passage_at,
    passage_count,
    query_language,
    query_terms,
    query_words,
    stems_beside,
    terms_fingerprint,
)

__all__ = [
    "MANY_TOLD",
    "MUCH_TOLD",
    "asks_about_self",
    "divided",
    "fold_words",
    "has_statement",
    "held_back",
    "how_telling",
    "index_terms",
    "index_words",
    "is_passing_remark",
    "is_request",
    "is_small_talk",
    "is_unspaced",
    "made_by_this_version",
    "passage_at",
    "passage_count",
    "query_language",
    "query_terms",
    "query_words",
    "statements",
    "stems_beside",
    "terms_fingerprint",
]
