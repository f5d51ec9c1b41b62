"""Ranked search: a scope is decrypted into memory, and ranked there by memoranda-backend.

What was decrypted is kept for the next search of the scope, up to a number of letters. Each search asks the engine how
the sealed texts of the scope have changed, and opens those that are new: one that is the same says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from memoranda.items import Changes, MemoryItem, Payload
from memoranda.loops import ITEMS_PER_TURN, LoopLock, import_in_thread, offload, ranking_weight
from memoranda.store import RankedItem, SearchMode, copy_item
from memoranda.store.backend import (
    AS_ADDED,
    Entry,
    Expiry,
    Filter,
    ScopeIndex,
    items_of_ids,
    payloads_where,
)

if TYPE_CHECKING:
    from memoranda_backend.ranking import KeptScopes, ScopeArrays, Weights
    from memoranda_encrypt.opened_items import Encryption

MOST_LETTERS = 32 << 20
"""How many letters of decrypted content are kept for all scopes together. A larger scope is kept alone."""


class Scope:
    """The decrypted items of a scope, and the indexes of them. Only the search that holds the lock may use it."""

    def __init__(self) -> None:
        self.lock = LoopLock()
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all items."""
        self.state: object = None
        """What the engine's next changes are asked with."""
        self.sealed: dict[int, tuple[str, str | None]] = {}
        """By the engine's number of an item: its id, and the sealed text that was opened."""
        self.entries: dict[int, Entry] = {}
        self.vectors: dict[int, bytes] = {}
        """The packed vectors of entries; empty for what has none."""
        self.row: list[Entry] = []
        self.letters = 0
        self.index: ScopeIndex | None = None
        self.arrays: ScopeArrays | None = None
        self.in_arrays: dict[int, Entry] = {}

    def follow(self, changes: Changes[Payload]) -> dict[str, int]:
        """Forget what is gone, and return the numbers of the items to open, by their ids."""
        rows, known = changes.rows, self.sealed
        if any(number in known and known[number][0] != row.item_id for number, row in rows.items()):
            self.start_anew()  # An engine that cannot tell what has changed has numbered its items anew.
            known = self.sealed
        gone = self.entries.keys() if changes.gone is None else changes.gone
        self.drop([number for number in gone if number not in rows])
        self.state = changes.state
        return {
            row.item_id: number
            for number, row in rows.items()
            if row.text is None or known.get(number) != (row.item_id, row.text)
        }

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget the items of these numbers."""
        for number in numbers:
            for held in (self.sealed, self.entries, self.vectors):
                held.pop(number, None)


class Ranking:
    """Ranks for one encryption layer."""

    def __init__(self, layer: Encryption) -> None:
        self._layer = layer
        self._scopes: KeptScopes[Scope] | None = None

    def forget(self) -> None:
        """Drop all that was decrypted."""
        self._scopes = None

    async def rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        """Return the items that answer the query best, by the means that a mode names."""
        await import_in_thread("memoranda_backend.ranking.ranking")
        from memoranda_backend.ranking import KeptScopes  # Most programs never rank.

        kept = self._scopes = self._scopes or KeptScopes()
        bounds = wanted.scope()
        key = tuple([repr(each) for each in bounds.conditions if type(each) is not Expiry])
        scope = kept.of(key, Scope)
        async with scope.lock.held():
            try:
                entries = await self._entries(scope, bounds)
                sought = wanted.sought()
                chosen = sought if sought.conditions else None
                if mode == "text":
                    ranked = await self._by_words(scope, entries, query, chosen, limit)
                else:
                    ranked = await self._by_meaning(scope, entries, query, chosen, limit, words=mode == "hybrid")
            except BaseException:
                scope.start_anew()
                raise
            kept.measured(key, scope, scope.letters, MOST_LETTERS)
        return await self._current(ranked)

    async def _entries(self, scope: Scope, bounds: Filter) -> list[Entry]:
        """Return the items of a scope, oldest first, after opening those that have changed."""
        parts = self._layer.opener.divided(bounds)
        changes = await self._layer.inner.changes(payloads_where(parts.stored, AS_ADDED), scope.state)
        before = len(scope.entries)
        to_open = scope.follow(changes)
        if not to_open and len(scope.entries) == before:
            return scope.row  # As it is most often: nothing has changed since the last search.
        opened: dict[int, tuple[MemoryItem, MemoryItem]] = {}
        ids = list(to_open)
        for start in range(0, len(ids), ITEMS_PER_TURN):
            found = await self._layer.inner.read(items_of_ids(ids[start : start + ITEMS_PER_TURN]))
            by_id = {each.id: each for each in found}
            for item in await self._layer.opener.all_opened(found, keep=True):
                opened[to_open[item.id]] = by_id[item.id], item
        scope.drop(to_open.values())
        for number, (stored, item) in opened.items():
            scope.sealed[number] = item.id, stored.payload
            scope.entries[number] = Entry(item.created_at, number, item, [])
        scope.letters = sum([len(entry.item.content) for entry in scope.entries.values()])
        if self._layer.vectors is not None:
            await self._note_vectors(scope, opened)
        rest = parts.rest
        scope.row = sorted([entry for entry in scope.entries.values() if rest is None or rest.matches(entry.item)])
        return scope.row

    async def _by_words(
        self, scope: Scope, entries: list[Entry], query: str, chosen: Callable[[MemoryItem], bool] | None, limit: int
    ) -> list[RankedItem]:
        if scope.index is None:
            scope.index = (await self._layer.ranker()).index()
        weight = ranking_weight(len(entries), (entry.item.content for entry in entries if not entry.terms))
        rank = partial(scope.index.rank, query, entries, belongs=_is_any, wanted=chosen, limit=limit)
        return await offload(weight, rank)

    # Meaning

    async def _note_vectors(self, scope: Scope, changed: dict[int, tuple[MemoryItem, MemoryItem]]) -> None:
        """Open the vectors of changed items, and make those that were not stored, or by another model."""
        sealer = self._layer.vectors
        assert sealer is not None, "only asked where there is an embedder"
        for number, (stored, _) in changed.items():
            vectors = sealer.opened(stored, self._layer.ring)
            if vectors is not None:
                scope.vectors[number] = vectors
        missing = {number: entry.item.content for number, entry in scope.entries.items() if number not in scope.vectors}
        texts = {number: text for number, text in missing.items() if text.strip()}
        scope.vectors.update(dict.fromkeys(missing, b""))
        scope.vectors.update(zip(texts, await sealer.embedded(list(texts.values())), strict=True))
        scope.letters += sum(map(len, scope.vectors.values()))

    async def _by_meaning(
        self,
        scope: Scope,
        entries: list[Entry],
        query: str,
        chosen: Callable[[MemoryItem], bool] | None,
        limit: int,
        *,
        words: bool,
    ) -> list[RankedItem]:
        from memoranda_backend.ranking import HEARD, query_without_names, taking_part

        sealer = self._layer.vectors
        assert sealer is not None, "a mode without its capability is refused before"
        heard = [(entry.item.name, entry.item.content) for entry in entries[-HEARD:][::-1]]
        vector, unrelated = await sealer.query(query_without_names(query, taking_part(query, heard)))
        if not entries:
            return []

        def work() -> list[RankedItem]:
            arrays = self._arrays(scope, entries, sealer.weights.passage, sealer.dimension)
            return _ranked_by_meaning(
                arrays, entries, query, vector, chosen, limit, sealer.weights, unrelated, words=words
            )

        return await offload(ITEMS_PER_TURN + 1, work)

    @staticmethod
    def _arrays(scope: Scope, entries: Sequence[Entry], passage: float, dimension: int) -> ScopeArrays:
        """Return the arrays of these entries, after adding what is new and removing what is gone."""
        from memoranda_backend.ranking import Added, ScopeArrays, passage_of

        now = {entry.added: entry for entry in entries}
        arrays, held = scope.arrays, scope.in_arrays
        if arrays is None or arrays.is_worn:
            arrays, held = ScopeArrays(passage, dimension), {}
        arrays.remove([number for number, entry in held.items() if now.get(number) is not entry])
        new = [entry for number, entry in now.items() if held.get(number) is not entry]
        arrays.add([Added(each.added, passage_of(each.item), scope.vectors.get(each.added, b"")) for each in new])
        scope.arrays, scope.in_arrays = arrays, now
        return arrays

    async def _current(self, ranked: list[RankedItem]) -> list[RankedItem]:
        """Return results whose items are the caller's own, with the lifetimes that they have now."""
        expiring = [
            found.item.id for found in ranked if found.item.expires_at is not None or self._layer.lifetimes.in_use
        ]
        ends = (
            {item.id: (item.ttl, item.expires_at) for item in await self._layer.inner.read(items_of_ids(expiring))}
            if expiring
            else {}
        )
        results = []
        for found in ranked:
            item = copy_item(found.item)
            if item.id in ends:
                item.__dict__["ttl"], item.__dict__["expires_at"] = ends[item.id]
            results.append(replace(found, item=item))
        return results


def _is_any(item: MemoryItem) -> bool:
    return True


def _ranked_by_meaning(
    arrays: ScopeArrays,
    entries: Sequence[Entry],
    query: str,
    vector: Sequence[float],
    chosen: Callable[[MemoryItem], bool] | None,
    limit: int,
    weights: Weights,
    unrelated: float,
    *,
    words: bool,
) -> list[RankedItem]:
    from memoranda_backend.ranking import likeness, nearest_first, passage_at, rank

    items = {entry.added: entry.item for entry in entries}
    numbers = arrays.layout.numbers.tolist()
    near = arrays.similarities(vector, weights.damping)
    wanted = None if chosen is None else [chosen(items[number]) for number in numbers].__getitem__

    def nearest(place: int, content: str) -> str:
        part = arrays.nearest_part(place, vector)
        return passage_at(content, *part) if part[1] > 1 else ""

    if words:
        scored = rank(arrays, query, weights, near=near, wanted=wanted, limit=limit, unrelated=unrelated)
        return [
            each.ranked(items[numbers[each.item]], nearest(each.item, items[numbers[each.item]].content))
            for each in scored
        ]
    scores = likeness(near, unrelated)
    found = []
    for place in islice(nearest_first(arrays, near, wanted), limit):
        item, score = items[numbers[place]], float(scores[place])
        found.append(RankedItem(item, score, {"semantic": score}, passage=nearest(place, item.content), meaning=1.0))
    return found
