"""The speaker of an item, and the person that a query is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memoranda.items import BUILTIN_TYPES
from memoranda_backend.text.languages import PERSONS_OF
from memoranda_backend.text.terms import MONTHS, STOPWORDS, fold_words, query_language

_NAMES_THAT_ARE_WORDS = "art bill dean drew faith frank grace hope jack joy mark pat rich rose sue"
_COMMON_WORDS = STOPWORDS.union(MONTHS, _NAMES_THAT_ARE_WORDS.split())
ASSISTANTS = frozenset({"ai", "assistant", "agent", "bot", "model"})
_ROLES = BUILTIN_TYPES.keys() | ASSISTANTS | {"user"}
UNKNOWN = frozenset({"", "human"})
"""The speakers of items that name none, as most do."""

_LABEL = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
LONGEST_LABEL = 100
"""Within how many characters a content names its speaker."""

_TOLD_BY_YOU = re.compile(r"\b(?:did|had|have) you\b|\byou (?:\w+ed|told|said|gave|made|wrote)\b", re.IGNORECASE)
_POSSESSIVE = r"(?:['’]s?(?!\w))?"


def speaker_of(name: str | None, role: str, content: str) -> str:
    """Return who speaks: the name, else a label that the content begins with ("Ana: hello"), else the role."""
    if name:
        return name
    beginning = content[:LONGEST_LABEL]
    label = _LABEL.match(beginning) if ":" in beginning else None
    return label[1] if label and label[1][:1].isupper() else role


def is_role(speaker: str) -> bool:
    """Return True if a speaker is given by a role, such as "assistant", instead of a name."""
    return speaker.casefold() in _ROLES


def asked_person(query: str) -> tuple[str, frozenset[str]]:
    """Return whether a query in the first person is about the user or an assistant, and its words of that person.

    "What is my dog called?" is about the user, "What did you tell me?" about the assistant, and most are about neither.
    """
    language = query_language(query)
    first, second = PERSONS_OF.get(language or "-", PERSONS_OF["-"])
    words = fold_words(query)
    if first.isdisjoint(words):
        return "", first
    if _TOLD_BY_YOU.search(query):
        return "assistant", first
    # "Can you show me …" is still about who asks; other languages have too many ways to ask what a person said.
    return ("user" if language == "english" or second.isdisjoint(words) else ""), first


def query_without_names(query: str, names: Iterable[str]) -> str:
    """Return the query without the names of those who take part, as it should be embedded.

    Names pull small models towards greetings, and who spoke is known anyway. First names count as well as whole ones,
    in any case; a name that is also a common word ("Will", "May") must be written with its capital. A query that would
    be left with nothing but stopwords comes back as it is. Roles ("human", "assistant") are no names.
    """
    asked = set(fold_words(query))
    shorter = query
    parts = {part for name in names if not is_role(name) for part in (name, *name.split())}
    for name in sorted(parts, key=lambda name: (-len(name), name)):
        words = fold_words(name)
        if not words or not asked.issuperset(words):
            continue
        common = len(words) == 1 and words[0] in _COMMON_WORDS
        pattern = rf"(?<!\w){re.escape(name)}(?!\w){_POSSESSIVE}"
        shorter = re.sub(pattern, " ", shorter, flags=re.NOFLAG if common else re.IGNORECASE)
    shorter = " ".join(shorter.split())
    if shorter == query or all(word in STOPWORDS for word in fold_words(shorter)):
        return query
    return shorter
