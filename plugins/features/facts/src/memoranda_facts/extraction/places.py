"""Places: names of them that are typed without capitals, and capitalised words that are no homes."""

from __future__ import annotations

import re
from functools import cache

from memoranda_facts.extraction.rule_table import words

_AFTER_A_PREPOSITION = re.compile(
    r"\b(?:in|to|from|left|visited|nach|aus|en|de|à)\s+(?:the )?(?=(?P<words>[a-zà-ÿ][a-zà-ÿ' -]*))"
)
_MOST_WORDS = 3


@cache
def _known() -> dict[str, str]:
    return {name.lower(): name for name in words()["KNOWN_PLACE"]}


@cache
def _no_homes() -> frozenset[str]:
    return frozenset(name.lower() for name in words()["NO_HOME"])


def with_capitals(text: str) -> str:
    """Return a text in which known places have their capitals, as in "i live in berlin"; its length stays the same."""
    for found in _AFTER_A_PREPOSITION.finditer(text):
        name = _place_at_the_start(found["words"])
        if name is not None:
            start = found.start("words")
            text = text[:start] + name + text[start + len(name) :]
    return text


def _place_at_the_start(said: str) -> str | None:
    parts = said.split(" ")[:_MOST_WORDS]
    tried = (" ".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((_known()[each] for each in tried if each in _known()), None)


def is_home(name: str) -> bool:
    """Return False for what people move to without living there: programs, departments, plans."""
    lowered = name.lower()
    return lowered not in _no_homes() and lowered.split()[0] not in _no_homes()
