"""Who speaks, and whom a query is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from memoranda.items import BUILTIN_TYPES
from memoranda.ranking.terms import MONTHS, STOPWORDS, fold_words, index_terms, query_language

_NAMES_THAT_ARE_WORDS = "art bill dean drew faith frank grace hope jack joy mark pat rich rose sue"
_COMMON_WORDS = STOPWORDS.union(MONTHS, _NAMES_THAT_ARE_WORDS.split())
_ASSISTANTS = frozenset({"assistant", "ai", "agent", "bot", "model"})
_ROLES = BUILTIN_TYPES.keys() | _ASSISTANTS | {"user"}
_USERS = frozenset({"user", "human"})
_LABEL = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_LONGEST_LABEL = 100
_TOLD_BY_YOU = re.compile(r"\b(?:did|had|have) you\b|\byou (?:\w+ed|told|said|gave|made|wrote)\b", re.IGNORECASE)
_POSSESSIVE = r"(?:['’]s?(?!\w))?"


def speaker_of(name: str | None, role: str, content: str) -> str:
    """Return who speaks: the name, else a label that the content begins with ("Ana: hello"), else the role."""
    if name:
        return name
    label = _LABEL.match(content[:_LONGEST_LABEL])
    return label[1] if label and label[1][:1].isupper() else role


def is_role(speaker: str) -> bool:
    """Whether this says what somebody is in the conversation, and not who: such words are no names."""
    return speaker.casefold() in _ROLES


def is_assistant(speaker: str) -> bool:
    """Whether an assistant speaks."""
    return speaker.casefold() in _ASSISTANTS


def is_user(speaker: str) -> bool:
    """Whether a user speaks: under this role, or under a name."""
    return speaker.casefold() in _USERS or not is_role(speaker)


@cache
def _persons() -> dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]]:
    """Return the words for who asks and who is asked, and the index terms of the first, by language."""
    found = {}
    for line in (files(__package__) / "persons.txt").read_text(encoding="utf-8").splitlines()[1:]:
        language, _, words = line.partition(": ")
        first, _, second = words.partition(" | ")
        found[language] = (frozenset(first.split()), frozenset(second.split()), frozenset(index_terms(first)))
    return found


def asked_person(query: str) -> tuple[str, frozenset[str]]:
    """Return who a query in the first person is about, and the terms in which a user speaks of herself.

    "What is my dog called?" is about the user, "What did you tell me?" about the assistant, and most are about neither.
    """
    language = query_language(query)
    first, second, terms = _persons().get(language or "-", (frozenset[str](),) * 3)
    words = fold_words(query)
    if first.isdisjoint(words):
        return "", frozenset()
    if _TOLD_BY_YOU.search(query):
        return "assistant", terms
    # "Can you show me …" is still about who asks; other languages have too many ways to ask what somebody said.
    return "user" if language == "english" or second.isdisjoint(words) else "", terms


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
