"""Which language a text is in, by its commonest words: enough to choose stopwords and a stemmer.

Words are compared as they are folded for the index, without accents. A text in which no list has more words than the
English one counts as English if it has any of these, and as unknown otherwise. Scripts that only one stemmer knows need
no list: see :mod:`memoranda_text.stemming`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files


def lines_of(name: str) -> list[str]:
    """Return the lines of a data file of this package, without its remarks."""
    lines = (files(__package__) / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


STOPWORDS_OF = {
    language: frozenset(words.split())
    for language, _, words in (line.partition(":") for line in lines_of("stopwords.txt"))
}
"""Words that a query in a language is better without."""

PERSONS_OF = {
    language: tuple(frozenset(words.split()) for words in persons.split("|"))
    for language, _, persons in (line.partition(":") for line in lines_of("persons.txt"))
}
"""Words of the first and of the second person; those of the language "-" hold for all that have no list."""

STANDING_OF = {
    language: words.split() for language, _, words in (line.partition(":") for line in lines_of("standing.txt"))
}
"""Words that mark instructions and preferences, which hold from when they were said; "-" as above."""

LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in STOPWORDS_OF.items():
    for _word in _words:
        LANGUAGES_OF.setdefault(_word, []).append(_language)

_COMMON = frozenset(LANGUAGES_OF)
_LOOKED_AT = 100
"""How many words tell the language; more would only take longer."""


def language_of(words: Sequence[str]) -> str | None:
    """Return the language of a text from its folded words, or None if none of them tells."""
    known = _COMMON.intersection(words[:_LOOKED_AT])
    if known <= STOPWORDS_OF["english"]:  # No other list has more of them.
        return "english" if known else None
    votes: dict[str, int] = {}
    for word in known:
        for language in LANGUAGES_OF[word]:
            votes[language] = votes.get(language, 0) + 1
    most = max(votes.values())
    likely = [language for language, count in votes.items() if count == most]
    return "english" if "english" in likely else max(likely)
