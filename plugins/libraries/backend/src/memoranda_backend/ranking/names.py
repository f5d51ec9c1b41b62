"""The names of those who speak, of those who are called by name, and of the person that a query is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice, pairwise

from memoranda.items import BUILTIN_TYPES
from memoranda.store import RankedItem
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


def wrong_person(query: str, ranked: Sequence[RankedItem], most: int) -> frozenset[str]:
    """Return the name of the one speaker whom a query names, if what others say fits it better in the best results."""
    asked = frozenset(fold_words(query))
    speakers = [speaker_of(found.item.name, "", found.item.content) for found in ranked]
    names = {asked.intersection(fold_words(speaker)) for speaker in set(speakers) if not is_role(speaker)}
    named = [name for name in names if name]
    if len(named) != 1:
        return frozenset()
    name = named[0]
    own, others = 0, 0
    for found, speaker in zip(ranked[:most], speakers, strict=False):
        fits = sum(not any(part.startswith(term) for part in name) for term in found.terms)
        if name.isdisjoint([*fold_words(speaker), *fold_words(found.item.content)]):
            others = max(others, fits)
        else:
            own = max(own, fits)
    return name if others > own else frozenset()


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


_GREETINGS = (
    "hey hi hello thanks congrats bye dear hallo danke hola gracias salut bonjour merci ciao grazie olá oi obrigado "
    "obrigada привет спасибо"
)
_GREETED = frozenset(_GREETINGS.split())
_MARKS = ("!", ",", "?", ".")
"""What follows a name by which somebody is called."""
_BEFORE_MARK = re.compile(r"(?<![^\W_])([A-Z\u00c0-\u00de\u0370-\u03ab\u0400-\u042f][^\W\d_]*)(?=[!,?.])")
_BEFORE_NAME = 2
"""How many words a text may begin with where the last is a name that is called: "Wow Ada!"."""

_WORD = re.compile(r"[^\W\d_]+")
_NO_NAMES = STOPWORDS.union(MONTHS)
_BEGINNING = 80
"""How many characters of a content are read: people are called by name at the beginning."""

MOST_NAMES = 32
"""For how many names it is kept who calls them."""

HEARD = 500
"""How many of the newest items tell who speaks in a scope."""

_NEAR = 12
_TIMES, _IN_TURN = 10, 0.8
"""Two people take turns if, of at least so many nearby pairs of calls, this share is an even number of turns apart."""


def capitalised(query: str) -> frozenset[str]:
    """Return the words of a query that are capitalised like names."""
    if query.islower():
        return frozenset()
    return frozenset(word for word in _WORD.findall(query) if word[0].isupper() and word.lower() not in _NO_NAMES)


def beginning_of(text: str) -> str:
    """Return what :func:`called_names` needs of a text: its beginning, and if it has several lines, the end of one."""
    return text[:_BEGINNING] if "\n" not in text else text[:_BEGINNING] + "\n"


def called_names(text: str) -> tuple[list[str], list[str]]:
    """Return whom a text calls by name, and which names stand beside a greeting: "Thanks, Ada!" does both.

    "That's lovely, Ada!" was not said by Ada. A text of several lines calls no one: several people may speak in it.
    """
    beginning = text[:_BEGINNING]
    called, greeted = [], []
    for found in _BEFORE_MARK.finditer(beginning):
        name, before = found[1], beginning[: found.start()].rstrip()
        words = before.split(None, _BEFORE_NAME)
        if before[-1:] in _MARKS or len(words) < _BEFORE_NAME:
            called.append(name)
        spoken = before.rstrip(",").casefold().split()[-2:]
        if spoken and (spoken[-1] in _GREETED or spoken == ["thank", "you"]):
            greeted.append(name)
    return ([] if "\n" in text else called), greeted


class Calls:
    """Whom the items of a scope call by name, found out for a name when it is first asked for: few queries name one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[int], list[int]]] = {}
        """For each name, how many rows were read, and the rows that call it and that greet it."""

    def of(self, name: str, beginnings: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the rows that call a person by name, and those that have the name beside a greeting.

        ``beginnings`` are those of all rows, of which there are only ever more; see :func:`beginning_of`.
        """
        read, calling, greeting = self._found.get(name, (0, [], []))
        if read < len(beginnings):
            for row, beginning in enumerate(islice(beginnings, read, None), start=read):
                if name in beginning:
                    called, greeted = called_names(beginning)
                    calling += [row] * (name in called)
                    greeting += [row] * (name in greeted)
            if len(self._found) == MOST_NAMES:
                self._found.clear()
            self._found[name] = len(beginnings), calling, greeting
        return calling, greeting


def turns_of_callers(calling: Iterable[int], stretch_of: Callable[[int], tuple[int, int]]) -> set[int]:
    """Return the turns of the callers: the calls, and if two people take turns, every other turn around each call.

    ``stretch_of`` returns the first and the end of the consecutive turns around one. With several people, or in notes,
    it is chance whether two calls of one name are an even number of turns apart.
    """
    said, near, even = set(calling), 0, 0
    in_turn: set[int] = set()
    for (start, end), found in groupby(sorted(said), stretch_of):
        calls = list(found)
        apart = [right - left for left, right in pairwise(calls) if right - left <= _NEAR]
        near, even = near + len(apart), even + sum(turns % 2 == 0 for turns in apart)
        middles = [(left + right) // 2 + 1 for left, right in pairwise(calls)]
        for call, first, last in zip(calls, [start, *middles], [*middles, end], strict=True):
            in_turn.update(range(call, last, 2), range(call, first - 1, -2))
    return in_turn if even >= _IN_TURN * max(near, _TIMES) else said


def taking_part(query: str, heard: Iterable[tuple[str | None, str]]) -> set[str]:
    """Return who speaks in these turns, each a name and a content, and the names in the query that are called.

    "Thanks, Ada!" calls Ada. Her name is taken out of a query before it is embedded, as those of speakers are.
    """
    asked = capitalised(query)
    names = set()
    for name, content in heard:
        names.add(speaker_of(name, "", content))
        beginning = content[:_BEGINNING] if asked else ""
        if any(word in beginning for word in asked):
            names.update(asked.intersection(called_names(beginning)[1]))
    return names - {""}
