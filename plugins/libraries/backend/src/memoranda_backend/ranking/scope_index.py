"""The index of a scope whose items are held in memory, and the ranker that makes one for stores without their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoranda.items import MemoryItem
from memoranda.loops import give_way
from memoranda.store import RankedItem
from memoranda.store.backend import AtLeast, Condition, Entry, FieldEquals, Filter, Value, differing
from memoranda.store.ranked import ScopeToRank, best_of_all
from memoranda_backend.ranking.passages import Weights, passage_of
from memoranda_backend.ranking.postings import Column
from memoranda_backend.ranking.ranking import rank
from memoranda_backend.ranking.ranking import rank_together as ranked_together
from memoranda_backend.ranking.scope_arrays import Added, Flags, ScopeArrays, Wanted
from memoranda_backend.ranking.scores import RankedScope
from memoranda_backend.ranking.times import by_time
from memoranda_backend.ranking.verdict import judge
from memoranda_backend.text.superseding import newest_first
from memoranda_backend.text.terms import index_words

_DIVIDED_AT_ONCE = 500
"""How many texts are divided into words in one go."""

_MOST_KEPT = 8
"""For how many conditions it is kept what passes them."""

_WEIGHTS = Weights()

Kind = tuple[str, str | None, str | None]

_FIELDS_OF_A_KIND = ("memory_type", "session_id")

Matching = Callable[[MemoryItem], bool]

T = TypeVar("T")


class _Kept(Generic[T]):
    """What was found for the conditions asked for last. They have no hash: what one asks for may be a list."""

    def __init__(self) -> None:
        self._found: list[tuple[Sequence[Condition], T]] = []

    def find(self, asked: Sequence[Condition]) -> T | None:
        """Return what is kept for some conditions."""
        return next((found for conditions, found in self._found if conditions == asked), None)

    def keep(self, asked: Sequence[Condition], found: T) -> T:
        """Keep what was found for some conditions in the place of what was, and return it."""
        others = [each for each in self._found if each[0] != asked]
        self._found = [*others[1 - _MOST_KEPT :], (asked, found)]
        return found


class _InOrder:
    """The items in the order of a layout. ``kinds`` are those of the rows, each a number below ``most``.

    ``passing`` keeps which kinds pass the conditions that were asked for: 1 if they do, 0 if not, -1 if nobody asked.
    """

    def __init__(
        self,
        arrays: ScopeArrays,
        entries: Mapping[int, Entry],
        kinds: NDArray[Any],
        most: int,
        passing: _Kept[NDArray[np.int8]],
    ) -> None:
        self.layout, self.arrays, self._entries = arrays.layout, arrays, entries
        self._kinds = kinds[self.layout.rows]
        self._firsts = np.full(most, -1)
        """The place of one item of each kind; -1 for a kind that no item is of."""
        self._firsts[self._kinds] = np.arange(len(self._kinds))
        self._passing_kinds = passing
        self._passing = _Kept[Flags]()
        """Which places pass the conditions on kinds that were asked for."""

    def item(self, place: int) -> MemoryItem:
        """Return the item at a place."""
        return self._entries[int(self.layout.numbers[place])].item

    def items(self, places: Sequence[int]) -> list[MemoryItem]:
        """Return the items at some places."""
        return [self._entries[number].item for number in self.layout.numbers[list(places)].tolist()]

    def chosen(self, wanted: Matching | None) -> Wanted | None:
        """Return which places hold wanted items; None if all do."""
        if wanted is None or not isinstance(wanted, Filter):
            return None if wanted is None else self._at_places([wanted])
        of_kind, others = list[Condition](), list[Condition]()
        for condition in wanted.conditions:
            (of_kind if _is_of_kind(condition) else others).append(condition)
        passing = self._passing.find(of_kind)
        if passing is None:
            passing = self._passing.keep(of_kind, self._passing_of(of_kind))
        for unlike in filter(is_unlike_a_text, others):  # A question is not to find its own words: few items have them.
            passing = self.arrays.without(unlike.value, passing, self._at_places([unlike.test()]))
        tests = [each.test() for each in others if not is_unlike_a_text(each)]
        if not tests:
            return passing
        is_passing, passes_tests = passing.item, self._at_places(tests)
        return lambda place: is_passing(place) and passes_tests(place)

    def _at_places(self, tests: Sequence[Matching]) -> Callable[[int], bool]:
        """Return what tells of a place whether its item passes tests."""
        return lambda place: all(test(self.item(place)) for test in tests)

    def _passing_of(self, asked: Sequence[Condition]) -> Flags:
        """Return which places pass conditions on kinds; only kinds that are new are tested."""
        known = self._passing_kinds.find(asked)
        kinds = np.full(len(self._firsts), -1, np.int8)
        if known is not None:
            kinds[: len(known)] = known
        tests = [each.test() for each in asked]
        for kind in np.flatnonzero((kinds < 0) & (self._firsts >= 0)).tolist():
            item = self.item(self._firsts[kind])
            kinds[kind] = all(test(item) for test in tests)
        self._passing_kinds.keep(asked, kinds)
        passing: Flags = (kinds == 1)[self._kinds]
        return passing


def _kind_of(item: MemoryItem) -> Kind:
    """Return what many items have in common: the type, the trust and the session."""
    held = item.__dict__
    return held["memory_type"], held["trust"], held["metadata"].__dict__["session_id"]


def is_unlike_a_text(condition: Condition) -> TypeGuard[Value]:
    """Return True if a condition asks that the content of an item is not a certain text."""
    if not isinstance(condition, Value) or condition.in_extra:
        return False
    return (condition.name, condition.operator, type(condition.value)) == ("content", "$ne", str)


def _is_of_kind(condition: Condition) -> bool:
    """Return True if a condition has one answer for all items of a kind."""
    if type(condition) is Value:
        return condition.name in _FIELDS_OF_A_KIND and not condition.in_extra
    return isinstance(condition, AtLeast) or (isinstance(condition, FieldEquals) and condition.field == "memory_type")


class ScopeIndex:
    """The items of a scope as they were at the last look; a further look takes note of what has changed."""

    def __init__(self) -> None:
        self._start_anew()
        self._make_lock()

    def _make_lock(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _start_anew(self) -> None:
        self._row: Sequence[Entry] = ()
        self._entries: dict[int, Entry] = {}
        self._kinds = Column(np.int32)
        """The kind of each row of the arrays, a number."""
        self._known_kinds: dict[Kind, int] = {}
        self._passing_kinds = _Kept[NDArray[np.int8]]()
        self._arrays = ScopeArrays(_WEIGHTS.passage)
        self._in_order: _InOrder | None = None

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
        with self._looking():
            kept = self._looked(entries, belongs)
            scored = rank(self._arrays, query, _WEIGHTS, wanted=kept.chosen(wanted), limit=limit)
            items = kept.items([found.item for found in scored])
            return [found.ranked(item) for found, item in zip(scored, items, strict=True)]

    def _looking(self) -> threading.Lock:
        """Return the lock for one look."""
        if self._process != os.getpid():  # After a fork, the thread that holds the lock may not exist here.
            self._make_lock()
            self._start_anew()
        return self._lock

    def _looked(self, entries: Sequence[Entry], belongs: Matching) -> _InOrder:
        """Take note of the entries that belong to the scope, and return them in order."""
        self._look(entries, belongs)
        return self._kept_order()

    def _kept_order(self) -> _InOrder:
        layout = self._arrays.layout
        if self._in_order is None or self._in_order.layout is not layout:
            self._in_order = _InOrder(
                self._arrays, self._entries, self._kinds.values, len(self._known_kinds), self._passing_kinds
            )
        return self._in_order

    def _look(self, row: Sequence[Entry], belongs: Matching) -> None:
        """Take note of what there is now: those of the entries, oldest first, that belong to the scope.

        Whether one does depends on the entry alone, which is another after every change.
        """
        was, now = differing(self._row, row)
        gone = [entry.added for entry in was]
        try:
            self._arrays.remove(gone)
            for number in gone:
                self._entries.pop(number, None)
            if self._arrays.is_worn:
                self._start_anew()
                now = list(row)
            new = [entry for entry in now if belongs(entry.item)]
            self._entries.update((entry.added, entry) for entry in new)
            known = self._known_kinds
            self._kinds.extend([known.setdefault(_kind_of(entry.item), len(known)) for entry in new])
            for start in range(0, len(new), _DIVIDED_AT_ONCE):
                if start:
                    give_way()
                some = new[start : start + _DIVIDED_AT_ONCE]
                self._arrays.add([Added(entry.added, passage_of(entry.item, _terms(entry))) for entry in some])
        except BaseException:  # Half of a look is worse than none.
            self._start_anew()
            raise
        self._row = row


def rank_together(query: str, scopes: Sequence[ScopeToRank], limit: int) -> list[RankedItem]:
    """Return the best of several scopes, each ranked by itself: see :class:`memoranda.store.Ranker`."""
    indexes = [scope.index for scope in scopes if isinstance(scope.index, ScopeIndex)]
    if len(indexes) < len(scopes):  # Some are of a ranker that was replaced.
        return best_of_all([scope.ranked(query, limit) for scope in scopes], limit)
    with ExitStack() as held:
        for index in sorted(set(indexes), key=id):  # Two searches that share scopes take their locks in one order.
            held.enter_context(index._looking())
        looked = zip(indexes, scopes, strict=True)
        kept = [index._looked(scope.entries, scope.belongs) for index, scope in looked]
        wanted = [each.chosen(scope.wanted) for each, scope in zip(kept, scopes, strict=True)]
        arrays = [RankedScope(each.arrays, wanted=chosen) for each, chosen in zip(kept, wanted, strict=True)]
        best = ranked_together(arrays, query, _WEIGHTS, limit)
        return [found.ranked(kept[number].item(found.item)) for number, found in best]


def _terms(entry: Entry) -> list[str]:
    """Return the terms of an entry's item. Several threads may ask."""
    if not entry.terms:
        entry.terms[:] = index_words(entry.item.content)
    return entry.terms


class TextRanker:
    """Ranks by words, and by what a conversation adds to them: neighbouring turns, speakers and dates."""

    newest_first = staticmethod(newest_first)
    judge = staticmethod(judge)
    by_time = staticmethod(by_time)
    rank_together = staticmethod(rank_together)

    def index(self) -> ScopeIndex:
        """Return a new index, for one scope."""
        return ScopeIndex()
