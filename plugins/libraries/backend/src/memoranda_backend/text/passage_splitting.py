"""How a long text is divided into passages: for its words, and for the vectors of its meaning."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda_backend.text.terms import fold_words, stretches

MOST_EMBEDDED = 256
"""How many passages of a text have a vector; those of a longer text are longer."""

_LONGEST_WORD = 20
"""Words that are longer than this in the mean are none: the script has no spaces."""


def passage_count(terms: int, size: float) -> int:
    """Return how many passages of about ``size`` terms a text of so many has; with a size of 0, no text is divided."""
    return round(terms / size) if size and terms > 1.5 * size else 1


def passage_at(text: str, number: int, count: int) -> str:
    """Return about the words of one of so many passages of a text, or its letters where there are no spaces."""
    return _passage(*_words_of(text), number, count)


def _words_of(text: str) -> tuple[Sequence[str], str]:
    """Return the words of a text, or its letters, and what stands between them."""
    words = [word for part in stretches(text) for word in part.split()]
    return (words, " ") if len(words) * _LONGEST_WORD >= len(text) else (text, "")


def _passage(words: Sequence[str], space: str, number: int, count: int) -> str:
    return space.join(words[number * len(words) // count : (number + 1) * len(words) // count])


def is_short(text: str, size: float) -> bool:
    """Return True if a text is surely too short to be divided, as most are; otherwise :func:`divided` decides."""
    # No term is shorter than a letter, and where there are spaces, no two stand side by side.
    return not size or len(text) <= (3 if text.isascii() else 1.5) * size


def divided(text: str, size: float) -> list[str]:
    """Return the passages of a text that are embedded, in their order; one that is not long is its only passage."""
    if is_short(text, size):
        return [text]
    count = min(MOST_EMBEDDED, passage_count(sum(len(fold_words(part)) for part in stretches(text)), size))
    if count == 1:
        return [text]
    words, space = _words_of(text)
    return [_passage(words, space, number, count) for number in range(count)]


def held_back(score: float, count: int, damping: float) -> float:
    """Return the score of an item by the best of so many passages: of many, some are found by chance."""
    return score if count == 1 else float(score / count**damping)
