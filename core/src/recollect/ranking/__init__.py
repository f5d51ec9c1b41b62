"""Ranking for every backend: words, BM25 with the context of a conversation, and meaning.

Pure functions on the standard library. A backend feeds :func:`index_terms` to its full-text index, finds candidates
with :func:`query_terms` (and :func:`query_dates`, or :func:`date_terms` of its items and :func:`query_date_terms`), and
hands them with their neighbouring turns to :func:`rank_text`.
With vectors, it embeds :func:`query_without_names` and calls :func:`rank_hybrid`.
"""

from recollect.ranking.dates import date_terms, query_date_terms, query_dates
from recollect.ranking.fusion import fuse
from recollect.ranking.names import query_without_names, speaker_of
from recollect.ranking.passages import Passage, Scored, Weights
from recollect.ranking.text import rank_hybrid, rank_text
from recollect.ranking.words import fold_words, index_terms, query_terms

__all__ = [
    "Passage",
    "Scored",
    "Weights",
    "date_terms",
    "fold_words",
    "fuse",
    "index_terms",
    "query_date_terms",
    "query_dates",
    "query_terms",
    "query_without_names",
    "rank_hybrid",
    "rank_text",
    "speaker_of",
]
