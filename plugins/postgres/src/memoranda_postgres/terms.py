"""What is made of a content for searching, and how the full-text index holds it.

``terms`` are all terms of the content, in order and with repetitions: what a ranking looks at. The index holds a
tsvector of them, each with a mark of its user, so that a search touches no other user's entries. Of a long content it
is made of ``lexemes``, which are the terms without repetitions. One with more different words than a tsvector takes is
not in the index at all; such items have empty lexemes, and a search compares the terms of those in its scope.
"""

from __future__ import annotations

from memoranda.ranking import index_terms
from memoranda.store import fold

TEXT_COLUMNS = ("folded", "terms", "lexemes")
"""What is made of the content for searching."""

FOLDED = 'coalesce(folded, lower(content COLLATE "C"))'
"""The case-folded content. It is kept only where folding does more than PostgreSQL does to ASCII."""

UNINDEXED = "lexemes = ''"
"""The condition for items that the full-text index does not hold."""

_MOST_LEXEMES = 1_000_000  # bytes; a tsvector takes 1,048,575, with the marks
_SHORT = 50_000  # characters, of up to four bytes: even of one-letter words, with their marks, there are not too many
_MARK_SIZE = 7


def mark(user: str) -> str:
    """Return the expression of a user's mark: short, since every term carries it; the scope is looked at anyway."""
    return f"':' || coalesce(left(to_hex(hashtextextended({user}, 0)), {_MARK_SIZE - 1}), '')"


_MARK = mark("user_id")

TERMS_VECTOR = (
    f"array_to_tsvector(string_to_array(replace(coalesce(lexemes, terms), ' ', {_MARK} || ' ') || {_MARK}, ' '))"
)
"""The expression of the full-text index."""


def searchable(content: str) -> tuple[str | None, str, str | None]:
    """Return what is kept of a content for searching.

    That is the folded text where it is not what ``FOLDED`` makes of the content itself, the terms separated by spaces,
    and the lexemes if they are not just the terms.
    """
    terms = index_terms(content)
    together = " ".join(terms)
    return kept_folding(content), together, None if len(together) <= _SHORT else _lexemes(terms)


def kept_folding(content: str) -> str | None:
    """Return the case-folded content, or None where only ASCII letters change."""
    if content.isascii():
        return None
    folded = fold(content)
    return None if folded.encode() == content.encode().lower() else folded


def _lexemes(terms: list[str]) -> str:
    lexemes = dict.fromkeys(terms)
    size = sum(len(lexeme.encode()) + _MARK_SIZE for lexeme in lexemes)
    return " ".join(lexemes) if size <= _MOST_LEXEMES else ""
