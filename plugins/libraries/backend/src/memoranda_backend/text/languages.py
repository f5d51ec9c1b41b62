"""Which language a text is in, by its commonest words: enough to choose stopwords and a stemmer.

Words are compared as they are folded for the index, without accents. Many are common in several languages ("over",
"me", "se", "hai"), so a guess needs a margin: a text is in another language than the usual one around it, or than
English, only if it has clearly more of that language's commonest words. Scripts that only one stemmer knows need no
list: see :mod:`memoranda_backend.text.stemming`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

AUXILIARIES = frozenset(
    word
    for words in (
        *(line.partition(":")[2] for line in lines_of("auxiliaries.txt")),
        *(line.split("|")[1] for line in lines_of("asking.txt")),
    )
    for word in words.split()
)
"""Words of all languages that say nothing by themselves in a question: "can", "hace", "viele", and those that ask."""

STANDING_OF = {
    language: words.split() for language, _, words in (line.partition(":") for line in lines_of("standing.txt"))
}
"""Words that mark instructions and preferences, which hold from when they were said; "-" as above."""

_CONTRACTED = frozenset(["s", "t", "d", "ll", "m", "re", "ve"])
"""What an apostrophe leaves of English words. By themselves they are words of other languages."""

LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in STOPWORDS_OF.items():
    for _word in _words - (_CONTRACTED if _language == "english" else frozenset()):
        LANGUAGES_OF.setdefault(_word, []).append(_language)

_COMMON = frozenset(LANGUAGES_OF)
_LOOKED_AT = 100
"""How many words tell the language; more would only take longer."""

_MARGIN = 2
"""How many more of the commonest words of another language than of the usual one tell that it is that language."""

_LEAST_PART = 0.1
"""Which part of a text's words must be among the commonest of its language. Others have a few by chance."""

_TIMES_MORE = 1.5
"""How many times as often as those of English a scope must have the commonest words of another language."""


def language_of(words: Sequence[str], usual: str | None = None, margin: int = _MARGIN) -> str | None:
    """Return the language of a text from its folded words; the ``usual`` one, or None, if they do not tell it.

    ``margin`` is how many more of its commonest words than those of the usual language a text must have of another.
    """
    looked_at = set(words[:_LOOKED_AT])
    known = _COMMON.intersection(looked_at)
    if known <= STOPWORDS_OF.get(usual or "english", frozenset()):  # No other list has more of them.
        return usual or ("english" if known else None)
    votes: dict[str, int] = {}
    told: dict[str, float] = {}
    for word in known:
        languages = LANGUAGES_OF[word]
        for language in languages:
            votes[language] = votes.get(language, 0) + 1
            told[language] = told.get(language, 0.0) + 1 / len(languages)
    usually = votes.get(usual or "english", 0)
    best = max(votes, key=lambda language: (votes[language], told[language], language))
    if votes[best] >= max(usually + margin, _LEAST_PART * len(looked_at)):
        return best
    return usual or ("english" if usually else None)


def usual_language(votes: Mapping[str, float], total: int) -> str | None:
    """Return the language of many texts together, or None if it cannot be told.

    ``votes`` says how often words occur in them that are among the commonest of each language, and ``total`` how many
    words they have.
    """
    least = max(_MARGIN, _LEAST_PART * total)
    best = max(votes, key=lambda language: (votes[language], language), default="")
    english = votes.get("english", 0)
    if best and votes[best] >= max(least, _TIMES_MORE * english):
        return best
    return "english" if english >= least else None
