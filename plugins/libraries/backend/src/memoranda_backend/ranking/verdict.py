"""What a scope knows about a question: whether what is stored supports what it asks for.

A score says how well one item answers. The verdict looks at the scope as a whole: how much of the question one item
covers, how many of its words were ever said, and how near the nearest item is in meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memoranda.store import RankedItem, Verdict
from memoranda.store.ranked import RELEVANT, best_score
from memoranda_backend.ranking.names import wrong_person
from memoranda_backend.text.languages import AUXILIARIES, PERSONS_OF
from memoranda_backend.text.terms import fold_words, query_language, query_words

_HEARD = 0.3
"""How much the words that were ever said count, against 1 for those that one item has."""

_USUALLY_ALIKE = 0.22
"""How alike the nearest item is where it is chance. What is nearer speaks for an answer, what is less near against."""

_SUPPORTED = 0.31
"""The evidence below which a question is about something that is unknown."""

_UNKNOWN_NAME = 0.1
"""How much less evidence there is if a name in the question was never said."""

_MOSTLY_UNHEARD = 0.15
"""The same if at least half of what the question asks for was never said: one common word, such as the "rules" of
cricket, supports little by itself."""

_SUPPORTED_REQUEST = 0.05
"""The same as ``_SUPPORTED`` for what a user asks about themselves or of an assistant, where it may be for advice:
"Where should I stay?" is answered with the help of a preference that shares no word with it."""

_TOLD = re.compile(
    r"\b(?:did|have|had|has|was|were) (?:i|my|we|our)\b|\b(?:is|does) (?:my|our)\b"
    r"|\b(?:i|we)(?:['’]ve| have| had| was| were| said| told| mentioned)\b|\bhow (?:do|to) (?:i|you|we|one)\b",
    re.IGNORECASE,
)
"""What asks in English for what was told, or how something is done, and not for advice that depends on who asks."""

_NAME = re.compile(r"(?<=\w[\s,;'’-])[A-Z]\w+")
"""A word with a capital that does not begin its sentence."""

_LOOKED_AT = 5
"""How many of the best results tell whether a person is the right one."""

_BEGINNING, _SHORTEST = 0.75, 3
"""Which part of its letters a form of a word begins with, and how many these are at least."""

_ASKED_VERB = re.compile(
    r"\b(?:did|does|do|has|have|had|will|would|can|could|should|might|is|are|was|were)\s+"
    r"(?:[A-Z]\w*(?:\s+and\s+[A-Z]\w*)?|you|we|they|he|she|it)\s+([a-z]+)"
)
"""What English questions say of a person: "How did Ada describe …". Answers rarely use that verb."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_WORD_PART = re.compile(r"\w+")


def evidence(covered: float, heard: float, alike: float, known: float) -> float:
    """Return how much a scope supports a query, from 0 to 1.

    ``covered`` is the most of the query that one item has, ``heard`` the part of its terms that any has, ``alike`` how
    alike the nearest item is, and ``known`` how surely the vectors tell anything; each is from 0 to 1.
    """
    found = covered + _HEARD * heard + known * (alike - _USUALLY_ALIKE)
    return min(1.0, max(0.0, found / (1 + _HEARD)))


def judge(query: str, ranked: Sequence[RankedItem]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on the best results of a query, and the words of it that nothing supports."""
    if not ranked:
        return "unknown", tuple(_written(query, query_words(query, query_language(query)).values()))
    missing = _missing(query, ranked)
    unsupported = (*missing, *_written(query, [wrong_person(query, ranked, _LOOKED_AT)]))
    found, least = ranked[0].evidence, _least_evidence(query, missing)
    if found is None:  # The results are of another ranking than this one.
        found, least = best_score(ranked), RELEVANT
    if found < least:
        return "unknown", unsupported
    return ("near" if unsupported else "known"), unsupported


def _missing(query: str, ranked: Sequence[RankedItem]) -> list[str]:
    """Return the words of the query that nothing has in any form."""
    if not ranked[0].missing:
        return []
    said = {word for found in ranked[:_LOOKED_AT] for word in fold_words(found.item.content)}
    return [word for word in _written(query, [ranked[0].missing]) if not _has_form(word, said)]


def _least_evidence(query: str, missing: Sequence[str]) -> float:
    """Return the evidence that a query needs: none if it may ask for advice, more if much of it was never said.

    Words with a capital are names in English alone, where not every word has one.
    """
    language = query_language(query)
    is_english = language == "english"
    if _is_request(query) and not (is_english and _TOLD.search(query)):
        return 0.0 if is_english else _SUPPORTED_REQUEST
    names = set(_NAME.findall(query)) if is_english and not query.istitle() else set()
    unknown = any(not names.isdisjoint(_WORD_PART.findall(word)) for word in missing)
    never_said = {part for word in missing for part in fold_words(word)}
    asked = query_words(query, language).values()
    unheard = 2 * sum(not never_said.isdisjoint(words) for words in asked) >= len(asked) if missing else False
    return _SUPPORTED + (_UNKNOWN_NAME if unknown else 0.0) + (_MOSTLY_UNHEARD if unheard else 0.0)


def _has_form(written: str, said: Iterable[str]) -> bool:
    """Return True if a word that begins like each part of another was said: "lives" is a form of "live"."""
    beginnings = [part[: max(_SHORTEST, round(_BEGINNING * len(part)))] for part in fold_words(written)]
    return all(any(word.startswith(beginning) for word in said) for beginning in beginnings)


def _is_request(query: str) -> bool:
    """Return True if a query is about the one who asks, or speaks to the one who is asked."""
    first, second = PERSONS_OF.get(query_language(query) or "-", PERSONS_OF["-"])
    return not (first | second).isdisjoint(fold_words(query))


def _written(query: str, words: Iterable[Iterable[str]]) -> list[str]:
    """Return the words of a query, as they are written there, that consist of some of its folded words."""
    wanted = {word for some in words for word in some}
    if not wanted:
        return []
    verbs = _ASKED_VERB.findall(query)
    found = []
    for written in dict.fromkeys(_WORD.findall(query)):
        parts = [part for part in fold_words(written) if len(part) > 1 or len(written) == 1]
        says_nothing = written in verbs or AUXILIARIES.issuperset(parts)
        if parts and not says_nothing and wanted.issuperset(parts):
            found.append(written)
    return found
