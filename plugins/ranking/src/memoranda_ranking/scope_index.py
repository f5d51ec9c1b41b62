"""The index of a scope whose items are held in memory, for stores without an index of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from memoranda.items import MemoryItem
from memoranda.offloading import give_way
from memoranda.store import RankedItem
from memoranda.store.backend import Entry, differing
from memoranda_ranking.passages import Weights
from memoranda_ranking.ranking import rank
from memoranda_ranking.scope_arrays import Added, ScopeArrays
from memoranda_ranking.turns import passage_of
from memoranda_text.terms import index_words

_DIVIDED_AT_ONCE = 500
"""How many texts are divided into words in one go."""

Matching = Callable[[MemoryItem], bool]


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
        self._arrays = ScopeArrays(Weights().passage)

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
            self._look(entries, belongs)
            numbers = self._arrays.layout.numbers
            items = self._entries

            def chosen(place: int) -> bool:
                return wanted is None or wanted(items[numbers[place]].item)

            scored = rank(self._arrays, query, Weights(), wanted=chosen if wanted else None, limit=limit)
            return [found.ranked(items[numbers[found.item]].item) for found in scored]

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
            for start in range(0, len(new), _DIVIDED_AT_ONCE):
                if start:
                    give_way()
                some = new[start : start + _DIVIDED_AT_ONCE]
                self._arrays.add([Added(entry.added, passage_of(entry.item, _terms(entry))) for entry in some])
        except BaseException:  # Half of a look is worse than none.
            self._start_anew()
            raise
        self._row = row


def _terms(entry: Entry) -> list[str]:
    """Return the terms of an entry's item. Several threads may ask."""
    if not entry.terms:
        entry.terms[:] = index_words(entry.item.content)
    return entry.terms
