"""What is kept of the scopes that were searched last, and ranked search for engines that tell what has changed in them.

A search asks the engine how the items of its scope differ from those of the last search, and ranks what is there now.
Only items of the scope are read, and nothing that a ranking counts or averages comes from anywhere else: it must not
reveal anything of other tenants.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import fields
from itertools import filterfalse
from operator import attrgetter
from typing import Any, Generic, TypeVar

from memoranda.items import Changes, MemoryItem
from memoranda.loops import LoopLock, filter_weight, offload, ranking_weight
from memoranda.store import RankedItem, Ranker, copy_item
from memoranda.store.backend import AS_ADDED, Engine, Entry, Expiry, Filter, Query, ScopeIndex, items_where

ScopeT = TypeVar("ScopeT")


class KeptScopes(Generic[ScopeT]):
    """Scopes by what a search asks of them. Several threads may use it."""

    def __init__(self) -> None:
        self._scopes: dict[Hashable, ScopeT] = {}
        self._sizes: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        with self._lock:
            self._scopes, self._sizes = {}, {}

    def of(self, key: Hashable, make: Callable[[], ScopeT]) -> ScopeT:
        """Return the scope of a key, made if it is not kept."""
        with self._lock:
            scope = self._scopes.pop(key) if key in self._scopes else make()
            self._scopes[key] = scope  # The most recently searched one is last.
            return scope

    def measured(self, key: Hashable, scope: ScopeT, size: int, most: int) -> None:
        """Note the bytes of a scope; while all take more than ``most``, drop the least recently searched others."""
        with self._lock:
            if self._scopes.get(key) is not scope:
                return
            self._sizes[key] = size
            held = sum(self._sizes.values())
            for other in [each for each in self._scopes if each != key]:
                if held <= most:
                    break
                del self._scopes[other]
                held -= self._sizes.pop(other, 0)


MOST_BYTES = 256 << 20
"""About how many bytes are kept for all scopes; the least recently searched ones are dropped. A larger scope is kept
alone."""

_BYTES_OF_AN_ITEM = 3_000
_BYTES_OF_A_LETTER = 10

_TERMS = attrgetter("terms")
_REST_OF_A_RESULT = attrgetter(*(field.name for field in fields(RankedItem)[1:]))


class _Items:
    """The items of a scope as of one search, and the ranker's index of them."""

    def __init__(self) -> None:
        self.state: object = None
        self.row: list[Entry] = []
        """All entries, oldest first."""
        self.index: ScopeIndex | None = None
        self._entries: dict[int, Entry] = {}

    def follow(self, changes: Changes[MemoryItem]) -> None:
        """Take note of what has changed."""
        entries = self._entries
        if changes.gone is None:
            entries.clear()
        for number in changes.gone or ():
            entries.pop(number, None)
        for number, item in changes.rows.items():
            entries[number] = Entry(item.created_at, number, item, [])
        if changes.gone is None or changes.gone or changes.rows:
            self.row = sorted(entries.values())
        self.state = changes.state

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        letters = sum([len(entry.item.content) for entry in self.row])
        return _BYTES_OF_AN_ITEM * len(self.row) + _BYTES_OF_A_LETTER * letters


class _Scope:
    """What is kept of a scope. Only the holder of the lock may use it.

    A search that is broken off leaves None behind: a thread may still be at work on the items.
    """

    def __init__(self) -> None:
        self.lock = LoopLock()
        self.items: _Items | None = None


class RankedScopes:
    """Ranks the scopes of an engine by their words. Several event loops may use it.

    ``engine`` is asked for changes, and ``ranker`` for what ranks. Where the engine cannot tell what has changed, every
    search reads the whole scope.
    """

    def __init__(self, engine: Engine, ranker: Callable[[], Awaitable[Ranker]]) -> None:
        self._engine = engine
        self._ranker = ranker
        self._kept: KeptScopes[_Scope] = KeptScopes()

    def forget(self) -> None:
        """Drop everything: after a purge, nothing of what was purged may stay in memory."""
        self._kept.forget()

    async def rank(self, query: Query[Any]) -> list[RankedItem]:
        """Return the items that match and answer a question best, best first: see ``Engine.read``."""
        assert query.ranking is not None, "only asked for a ranking"
        text, limit = query.ranking.text, query.page.limit
        bounds, sought = query.wanted.scope(), query.wanted.sought()
        # Neighbours count whatever their type, so what is sought is chosen after the ranking.
        chosen = sought if sought.conditions else None
        key = _key(bounds)
        scope = self._kept.of(key, _Scope)
        async with scope.lock.held():
            items, scope.items = scope.items or _Items(), None
            changes = await self._engine.changes(items_where(bounds, AS_ADDED), items.state)
            await offload(filter_weight(len(changes.rows)), items.follow, changes)
            index, row = items.index or (await self._ranker()).index(), items.row
            weight = ranking_weight(len(row), (entry.item.content for entry in filterfalse(_TERMS, row)))
            ranked = await offload(weight, lambda: index.rank(text, row, belongs=_is_any, wanted=chosen, limit=limit))
            if items.state is not None:  # The engine tells what has changed.
                items.index, scope.items = index, items
                if changes.gone is None or changes.rows:
                    self._kept.measured(key, scope, items.size, MOST_BYTES)
        if query.shared:
            return ranked
        return [RankedItem(copy_item(found.item), *_REST_OF_A_RESULT(found)) for found in ranked]


def _key(bounds: Filter) -> tuple[str, ...]:
    """Return what a scope is kept under. Time passes for every search and makes no other scope of it."""
    return tuple([repr(each) for each in bounds.conditions if type(each) is not Expiry or each.expired])


def _is_any(item: MemoryItem) -> bool:
    return True
