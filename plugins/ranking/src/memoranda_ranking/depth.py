"""How many memories a question needs: one that counts, lists, compares or sums up needs more than the best few."""

from __future__ import annotations

import re
from functools import cache

from memoranda_text.languages import lines_of
from memoranda_text.terms import is_unspaced

USUAL, DEEP = 10, 30
"""How many memories are recalled for most questions, and for one that needs many pieces."""


def depth(query: str) -> int:
    """Return how many memories a question should be given."""
    return DEEP if _needing_many().search(query) else USUAL


@cache
def _needing_many() -> re.Pattern[str]:
    words = [word.strip() for line in lines_of("many.txt") for word in line.partition(":")[2].split(",")]
    unspaced = [word for word in words if is_unspaced(word)]
    spaced = [re.escape(word).replace(r"\*", r"\w*") for word in words if not is_unspaced(word)]
    return re.compile(rf"\b(?:{'|'.join(spaced)})\b|{'|'.join(unspaced)}", re.IGNORECASE)
