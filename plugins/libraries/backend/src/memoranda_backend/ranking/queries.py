"""What a query asks for: its words by their stems, and of whom and of when it speaks."""

from __future__ import annotations

from functools import cached_property, lru_cache

from memoranda_backend.ranking.dates import query_date_terms
from memoranda_backend.ranking.names import asked_person
from memoranda_backend.text.stemming import stem, stemmer_of
from memoranda_backend.text.terms import MONTHS, fold_words, index_words, query_language, query_words

_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weekend month year morning evening night recently since soon lately
earlier monday tuesday wednesday thursday friday saturday sunday
"""
TIME_TERMS = frozenset({*map(stem, (*_TIME_WORDS.split(), *MONTHS))} - {stem("may")})
"""The stems of words that say when."""

_ASKING_FOR_TIME = frozenset({"when", "date"})
_ASKING = frozenset({"what", "when", "where", "who", "whom", "whose", "which", "why", "how"})


class Query:
    """What a query asks for."""

    def __init__(self, text: str, usual: str | None = None) -> None:
        self.text = text
        self.language = query_language(text, usual)
        """The language that it is asked in; where it does not tell, the usual one of the scope."""
        self.words = query_words(text, self.language)
        """The words that are asked for, by their stems."""
        self.terms = tuple(self.words)
        self.is_foreign = self.language != "english" and bool(self.language or not text.isascii())
        """True if it surely is not in English; keywords without common words may be."""
        self.dates = query_date_terms(text)
        self.when = self.dates.union(TIME_TERMS)
        """What says when, not what: it does not count where it is asked how much of a query is covered."""
        said = fold_words(text)
        self.asks_for_time = not _ASKING_FOR_TIME.isdisjoint(said)
        self.is_asking = "?" in text or not _ASKING.isdisjoint(said)

    def stems(self, text: str) -> frozenset[str]:
        """Return the stems of a text, in the language of the query."""
        return _stems(text, self.language)

    @cached_property
    def person(self) -> tuple[str, frozenset[str]]:
        """Whom it is about, if it is in the first or second person; see :func:`asked_person`."""
        return asked_person(self.text)


asked = lru_cache(maxsize=16)(Query)
"""What a text asks for. A recall asks the same of every place that it reaches."""


@lru_cache(maxsize=4096)
def _stems(text: str, language: str | None) -> frozenset[str]:
    return frozenset(map(stemmer_of(language), index_words(text)))
