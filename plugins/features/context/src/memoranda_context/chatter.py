"""Answers that say something only to those who heard the question."""

from __future__ import annotations

import re

from memoranda_backend.text import fold_words, is_unspaced

_MOST_WORDS = 4
"""An answer of more words is more than politeness."""

_TELLS = re.compile(r"\d|(?<=\S )[A-ZÀ-ÞА-Я]")
"""A figure, or a name after the first word."""


def is_chatter(answer: str) -> bool:
    """Return True for an answer of few words without a name or a figure: "Noted.", "Thanks for telling me."."""
    words = fold_words(answer)
    if not words or any(map(is_unspaced, words)):
        return not words
    return len(words) <= _MOST_WORDS and not _TELLS.search(answer)
