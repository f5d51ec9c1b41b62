"""A scope that is held in memory, with an index of its words, which answers the questions of the policy."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice, repeat
from operator import is_
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import RankedItem
from memoranda.store.backend import Entry
from memoranda_ranking.candidates import (
    Around,
    Best,
    Frequencies,
    OnDay,
    Question,
    Size,
    SpokenBy,
    Whole,
    WithLetters,
    best_hits,
    gather,
    gathered,
)
from memoranda_ranking.passages import Passage, Weights
from memoranda_ranking.scoring import rank_text
from memoranda_ranking.terms import index_terms
from memoranda_ranking.turns import Conversation, conversation_key, passage_of

_BLOCK = 4_096
"""How many entries are compared at once, in which time no other thread has its turn."""

_NAME = "@"

Matching = Callable[[MemoryItem], bool]


class ScopeIndex:
    """The items of a scope as they were at the last look, which go by their numbers in the order of adding.

    A further look takes note of what has changed; words are indexed when a question first asks for some.
    """

    def __init__(self) -> None:
        self._make_lock()
        self.items: dict[str, MemoryItem] = {}
        """The items of all passages that were given since the last look, by their keys."""
        self._start_anew()

    def _make_lock(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()

    def rank(
        self,
        query: str,
        entries: Sequence[Entry],
        *,
        belongs: Matching,
        wanted: Matching | None,
        limit: int,
    ) -> list[RankedItem]:
        """Rank the entries that belong to the scope; see :class:`memoranda.store.backend.ScopeIndex`."""
        if self._process != os.getpid():  # After a fork, the thread that holds the lock may not exist here.
            self._make_lock()
            self._start_anew()
        with self._lock:
            self.look(entries, belongs)
            gathering = gather(query, Weights(), limit, filtered=wanted is not None)
            candidates = gathered(gathering, partial(self.answer, wanted=wanted or belongs))
            items = self.items
        scored = rank_text(
            query,
            candidates.windows,
            total=candidates.total,
            frequencies=candidates.frequencies,
            wanted=None if wanted is None else lambda key: wanted(items[key]),
            limit=limit,
        )
        return [found.ranked(items[found.key]) for found in scored]

    def _start_anew(self) -> None:
        self._row: Sequence[Entry] = ()
        self._entries: dict[int, Entry] = {}
        self._conversations: dict[Conversation, list[Entry]] = {}
        self._having: dict[str, list[int]] = {}
        """Which entries have each term, and which a speaker's name, which stands behind a mark that no term has."""
        self._is_indexed = False
        self._passages: dict[int, Passage] = {}

    def look(self, row: Sequence[Entry], belongs: Matching) -> None:
        """Take note of what there is now: those of the entries, oldest first, that belong to the scope.

        Whether one does depends on the entry alone, which is another after every change.
        """
        self.items = {}
        start = _alike(self._row, row)
        was, now = self._row[start:], row[start:]
        end = _alike(was[::-1], now[::-1])
        was, now = was[: len(was) - end], now[: len(now) - end]
        known, there = set(map(id, was)), set(map(id, now))
        gone = [entry for entry in was if id(entry) not in there]
        if 4 * len(gone) > len(self._row):
            self._start_anew()
            gone, known, now = [], set(), row
        try:
            for entry in gone:
                self._leave(entry)
            for entry in now:
                if id(entry) not in known and belongs(entry.item):
                    self._enter(entry)
        except BaseException:  # Half of a look is worse than none.
            self._start_anew()
            raise
        self._row = row

    def answer(self, question: Question, wanted: Matching) -> Any:
        """Return the answer to a question of the policy; ``wanted`` says which items are searched for."""
        match question:
            case Size():
                return len(self._entries)
            case Whole():
                return [self._window(said) for said in self._conversations.values()]
            case Frequencies(terms):
                self._index()
                return {term: len(self._having.get(term, ())) for term in terms}
            case Best(told, most, matching):
                return self._best(told, most, wanted if matching else None)
            case OnDay(day, most):
                start, end = bisect_left(self._row, (day,)), bisect_left(self._row, (f"{day}\uffff",))
                return self._first(reversed(self._row[start:end]), most)
            case SpokenBy(term, most):
                names = [name for name in self._having if name[0] == _NAME and term in index_terms(name[1:])]
                return self._newest([number for name in names for number in self._having[name]], most)
            case WithLetters(letters, most):
                row = reversed(self._row)
                return self._first((entry for entry in row if letters in entry.item.content.casefold()), most)
            case Around(numbers, turns):
                return self._around(numbers, turns)
        raise AssertionError(f"a list of items has no answer to {question!r}")

    def _enter(self, entry: Entry) -> None:
        item, number = entry.item, entry.added
        self._entries[number] = entry
        said = self._conversations.setdefault(conversation_key(item), [])
        if said and entry < said[-1]:
            insort(said, entry)
        else:
            said.append(entry)
        if self._is_indexed:
            for key in _keys(entry):
                insort(self._having.setdefault(key, []), number)

    def _leave(self, entry: Entry) -> None:
        item, number = entry.item, entry.added
        if self._entries.get(number) is not entry:
            return
        del self._entries[number]
        self._passages.pop(number, None)
        said = self._conversations[conversation_key(item)]
        del said[bisect_left(said, entry)]
        if not said:
            del self._conversations[conversation_key(item)]
        for key in _keys(entry) if self._is_indexed else ():
            numbers = self._having[key]
            del numbers[bisect_left(numbers, number)]
            if not numbers:
                del self._having[key]

    def _index(self) -> None:
        if not self._is_indexed:
            having: defaultdict[str, list[int]] = defaultdict(list)
            for number in sorted(self._entries):
                listed = map(having.__getitem__, _keys(self._entries[number]))
                any(map(list.append, listed, repeat(number)))  # Each returns None: this goes on to the end.
            self._having, self._is_indexed = dict(having), True

    def _best(self, told: Mapping[str, float], most: int, wanted: Matching | None) -> list[int]:
        having = [(self._having[term], tells) for term, tells in told.items()]
        if wanted is not None:
            found = {number for numbers, _ in having for number in numbers}
            chosen = {number for number in found if wanted(self._entries[number].item)}
            having = [([number for number in numbers if number in chosen], tells) for numbers, tells in having]
        return best_hits(having, most, self._newest)

    def _newest(self, numbers: Sequence[int], most: int) -> list[int]:
        if len(numbers) * most < len(self._row):
            return nlargest(most, numbers, key=self._entries.__getitem__)
        wanted = frozenset(numbers)
        return self._first((entry for entry in reversed(self._row) if entry.added in wanted), most)

    def _first(self, entries: Iterable[Entry], most: int) -> list[int]:
        return list(islice((entry.added for entry in entries if entry.added in self._entries), most))

    def _around(self, numbers: Iterable[int], turns: int) -> list[list[Passage]]:
        hits: dict[Conversation, list[int]] = {}
        for number in numbers:
            entry = self._entries[number]
            key = conversation_key(entry.item)
            hits.setdefault(key, []).append(bisect_left(self._conversations[key], entry))
        windows = []
        for key, places in hits.items():
            spans: list[tuple[int, int]] = []
            for place in sorted(places):
                first = max(0, place - turns)
                if spans and first < spans[-1][1]:  # They share a turn.
                    first = spans.pop()[0]
                spans.append((first, place + turns + 1))
            windows += [self._window(self._conversations[key][first:end]) for first, end in spans]
        return windows

    def _window(self, entries: Iterable[Entry]) -> list[Passage]:
        passages = []
        for entry in entries:
            passage = self._passages.get(entry.added)
            if passage is None:
                passage = self._passages[entry.added] = passage_of(entry.item, _terms(entry))
            self.items[passage.key] = entry.item
            passages.append(passage)
        return passages


def _alike(one: Sequence[Entry], other: Sequence[Entry]) -> int:
    """Return with how many of the same entries both begin."""
    start, most = 0, min(len(one), len(other))
    while start < most and all(map(is_, one[start : start + _BLOCK], other[start : start + _BLOCK])):
        start += _BLOCK
    while start < most and one[start] is other[start]:
        start += 1
    return min(start, most)


def _terms(entry: Entry) -> list[str]:
    """Return the terms of an entry's item. Several threads may ask."""
    if not entry.terms:
        entry.terms[:] = index_terms(entry.item.content)
    return entry.terms


def _keys(entry: Entry) -> set[str]:
    """Return by what an entry is found: its terms, and who speaks."""
    return {*_terms(entry), *([_NAME + entry.item.name] if entry.item.name else ())}
