"""Passages: items and windows of conversations as a ranking sees them, its results, and its weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import NamedTuple

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import RankedItem
from memoranda_backend.ranking.names import speaker_of
from memoranda_backend.text.terms import passage_at

_SILENCE = timedelta(hours=4)
SILENCE = _SILENCE // timedelta(microseconds=1)
"""After how many microseconds without a turn a conversation is another one."""

EXACT = 9
"""To how many digits a sum over a scope counts: its last ones differ by the order in which an engine has the items."""


class Passage(NamedTuple):
    """One item as ranking sees it.

    ``session`` names the conversation that the item belongs to. Neighbours and the session's bonus stay within one
    sitting of it, which hours of silence end. ``date`` is ISO-8601 text. ``terms`` are the item's own
    :func:`~memoranda_backend.ranking.index_words`, where a backend keeps them; without them the text is divided on
    every query, which is most of the work.
    """

    key: str
    text: str
    speaker: str = ""
    date: str = ""
    session: str = ""
    terms: Sequence[str] | None = None


def are_apart(one: Passage, following: Passage) -> bool:
    """Return True if two consecutive passages are of different sessions or have hours of silence between them."""
    if one.session == following.session and one.date[:13] != following.date[:13]:
        try:
            return datetime.fromisoformat(following.date) - datetime.fromisoformat(one.date) > _SILENCE
        except (TypeError, ValueError):  # No time, or one without its zone.
            return one.date[:10] != following.date[:10]
    return one.session != following.session


class Scored(NamedTuple):
    """A key with its score and why: what the score is made of, and the terms of the query that the item itself holds.

    ``part`` says which of how many passages of a long text was found, and ``by_meaning`` that it was rather found by
    its vectors. ``item`` is its place in the layout. The score runs from 0 to 1.
    """

    key: str
    score: float
    parts: Mapping[str, float]
    terms: tuple[str, ...] = ()
    part: tuple[int, int] = (0, 1)
    item: int = 0
    by_meaning: bool = False
    share: float = 0.0
    """The share that meaning has in the ranking."""
    evidence: float = 0.0
    missing: tuple[str, ...] = ()
    """How much the scope supports the query, and the words that nothing in it has: see :mod:`verdict`."""

    def ranked(self, item: MemoryItem, nearest: str = "") -> RankedItem:
        """Return the item of this key, with its score and why; ``nearest`` is its passage of the nearest meaning."""
        passage = nearest if self.by_meaning or self.part[1] == 1 else passage_at(item.content, *self.part)
        return RankedItem(item, self.score, self.parts, self.terms, passage, self.share, self.evidence, self.missing)


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each thing counts in a text ranking. The defaults are modest and suit conversations.

    Set ``before`` and ``after`` to 0 for items that are not turns of a conversation.
    """

    before: float = 0.5
    """A term in the turn before, against 1 for a term in the item itself."""
    after: float = 0.3
    """A term in the turn after."""
    fading: float = 0.5
    """Each further turn counts this much of the one before it."""
    reach: int = 3
    """How many turns on each side count."""
    answer: float = 0.5
    """How much more the turn before counts when it asks something, since this item may be the answer."""
    same_speaker: float = 0.5
    """How much of this counts between turns that one speaker says one after the other, where it is known who speaks."""
    coherence: float = 0.3
    """How much more often than by chance the terms of a query must stand near each other for neighbours to count in
    full; where they do not, a quarter of it counts. 0: they always count in full."""
    own: float = 0.8
    """What an item has by its own terms alone, relative to the best of these, counts at least this much; more where
    neighbours count less."""
    speaker: float = 1.0
    """A term that is the speaker's name."""
    date: float = 1.0
    """A term that is part of the item's date, where the query speaks of a date."""
    saturation: float = 1.2
    """BM25's k1: how soon further occurrences of a term stop counting."""
    length: float = 0.5
    """BM25's b: how much long passages are held back, from 0 to 1."""
    passage: int = 60
    """About how many terms a passage has: an item of more is scored by the best of several. 0: no item is divided."""
    damping: float = 0.15
    """How much an item is held back for having many passages: its score is divided by their number to this power."""
    letters: float = 0.5
    """A term of which only the letters are found, against 1 for a term that is found as it is."""
    semantic: float | None = None
    """The part that meaning has in a hybrid ranking; the words have the rest. None measures it on the scope's own
    items: see :mod:`memoranda_backend.ranking.fusion`."""
    asked_speaker: float = 0.35
    """Bonus when the query names who speaks here, or is in the first person and the user speaks, or, where nobody is
    known, the item does not call by name whom the query names; like all bonuses, relative to the best, which has 1."""
    session: float = 0.2
    """Bonus for the other items of a session, as a part of the relevance of its best one."""
    topic: float = 0.15
    """Bonus for the items of a session that has all that is asked, for each tenfold of sessions beyond thirty: among
    very many, several have items alike, and what was said around them tells which is meant."""
    time: float = 0.15
    """Bonus for an item that mentions a time when the query asks for one."""
    statement: float = 0.1
    """Bonus for an item that does not end in a question."""

    standing: float = 0.2
    """How good an instruction or a preference must be, as a part of the best, to have the tenth place if no other is
    among the first ten; 0 keeps no place."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            # Not shapes.number: the error shows the field with its class and names it as the caller wrote it.
            if not (isinstance(value, (int, float)) and 0 <= value < inf) and (name, value) != ("semantic", None):
                raise InputError(f"Weights.{name} must be a number of at least 0, not {value!r}.", field=name)
        if (self.semantic or 0) > 1 or self.length > 1 or self.own > 1:
            raise InputError("Weights.semantic, length and own are parts of a whole: at most 1.", field="semantic")

    def faded(self) -> list[tuple[int, float, float]]:
        """Return each distance, and how much of a turn's terms counts for the turn so far after and before it."""
        faded = [(far, self.fading ** (far - 1)) for far in range(1, self.reach + 1)]
        return [(far, self.before * share, self.after * share) for far, share in faded]


Conversation = tuple[str | None, str | None, str | None]


def conversation_key(item: MemoryItem) -> Conversation:
    """Return the conversation of an item: its user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def passage_of(item: MemoryItem, terms: Sequence[str] | None = None) -> Passage:
    """Return an item as a passage; ``terms`` are its index terms, if a backend stores them."""
    session = conversation_name(*conversation_key(item))
    speaker = speaker_of(item.name, item.memory_type, item.content)
    return Passage(item.id, item.content, speaker, item.created_at, session, terms)


@lru_cache(maxsize=4096)
def conversation_name(user_id: str | None, session_id: str | None, task_id: str | None) -> str:
    """Return the name of a conversation, as passages have it."""
    return "\0".join(["" if part is None else f"={part}" for part in (user_id, session_id, task_id)])


def name_in(extra_json: str) -> str | None:
    """Return the speaker's name from a row's ``extra_json``, parsed only if it has one. Raises ValueError."""
    return _short_name_in(extra_json) if len(extra_json) <= _SHORT else _name_in(extra_json)


_SHORT = 200
"""How long a row's other fields may be to be remembered; most have a name and nothing else."""


def _name_in(extra_json: str) -> str | None:
    try:
        name = json.loads(extra_json).get("name") if '"name"' in extra_json else None
    except (AttributeError, RecursionError) as error:
        raise ValueError("the other fields cannot be read") from error
    if name is not None and type(name) is not str:
        raise ValueError("the name is no text")
    return name


_short_name_in = lru_cache(maxsize=4096)(_name_in)


def joined(windows: Iterable[Sequence[Passage]]) -> list[Sequence[Passage]]:
    """Return the windows with those that share passages made into one, each passage once, the earliest first."""
    windows = list(windows)
    times = Counter([passage.key for window in windows for passage in window])
    shared = {key for key, count in times.items() if count > 1}
    runs: list[Sequence[Passage]] = []
    sharing: list[Sequence[Passage]] = []
    for window in windows:
        (runs if shared.isdisjoint([passage.key for passage in window]) else sharing).append(window)
    passages = {passage.key: passage for window in sharing for passage in window}
    following: dict[str, str] = {}
    preceded: set[str] = set()
    for window in sharing:
        for left, right in pairwise(window):
            if left.key not in following and right.key not in preceded:
                following[left.key] = right.key
                preceded.add(right.key)
    for first in sorted(passages, key=preceded.__contains__):
        run = []
        key: str | None = first
        # Taking each passage out ends the walk even where windows contradict each other and lead in a circle.
        while key is not None and (passage := passages.pop(key, None)) is not None:
            run.append(passage)
            key = following.get(key)
        if run:
            runs.append(run)
    return sorted(filter(None, runs), key=lambda run: (run[0].date, run[0].key))
