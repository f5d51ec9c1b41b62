"""Clearing and purging."""

from __future__ import annotations

import asyncio
import gc
import uuid
from types import FunctionType, ModuleType
from typing import Any

from memoranda.items import MemoryMetadata
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import needs, note
from memoranda_testing.expect import equal, that
from memoranda_testing.programs import Calls, HistoryCases, Program, item, played, theirs


class ClearCases(HistoryCases):
    """Clearing removes what matches."""

    @played
    def test_bare_clear_removes_everything(self, store: Calls) -> Program:
        """Without a filter all items go, whatever their owner, and a bare restore brings them back."""
        yield store.add_many([item("a"), item("b", metadata=theirs()), item("c", metadata=MemoryMetadata())])
        yield from (store.clear(), store.search(), store.clear(), store.restore())


class PurgeCases(HistoryCases):
    """Removing for good."""

    @needs(Capability.PURGE)
    async def test_nothing_of_what_is_purged_stays_in_memory(self, store: Store) -> None:
        """Nothing that a store keeps between calls, such as a ranking of many items, still has what was purged."""
        scope = self.scope(session_id="s")
        await store.add_many([note(f"tea {number}", scope, 1) for number in range(1_100)])
        for way in ("purge", "pop", "apply", "filter", "bin"):
            # The secret is held backwards here, so that what is found is not the case's own.
            secret = uuid.uuid4().hex
            item_id = await self._kept_and_read(store, secret[::-1], scope)
            if way == "purge":
                await store.purge(item_id)
            elif way == "pop":
                that(await store.pop(metadata=scope, purge=True), "pop() found nothing.")
            elif way == "apply":
                await store.apply(deletes=[item_id], purge=True)
            elif way == "filter":
                await store.purge(metadata=scope, where={"id": item_id})
            elif Capability.DELETE in store.capabilities:
                await store.delete(item_id)
                await store.purge(metadata=scope, deleted_only=True)
            else:
                continue
            holders = _holders_of(store, secret)
            for _ in range(20):  # A thread or the event loop may be about to let go of an answer.
                if not holders:
                    break
                await asyncio.sleep(0.01)
                holders = _holders_of(store, secret)
            equal(holders, [], f"what still holds an item that was purged by {way!r}")

    async def _kept_and_read(self, store: Store, secret: str, scope: MemoryMetadata) -> str:
        """Store the newest item, read it in every way, and return its id."""
        item = note(f"tea and {secret}", scope, 2)
        await store.add(item)
        await store.get(item.id)
        modes: list[SearchMode] = ["substring", "text"]
        if Capability.SEMANTIC in store.capabilities:
            modes.append("semantic")
        for mode in modes:
            found = await store.search(query=secret, metadata=scope, mode=mode)
            that(item.id in [each.id for each in found], f"An item was not found in mode {mode!r}.")
        await store.window(metadata=scope, limit=5)
        return item.id


def _holders_of(store: Store, backwards: str) -> list[str]:
    """Return the types of what holds the text of an item that ends like this, backwards, and belongs to the store.

    Single words may be held: they are those of everybody. What belongs to modules and classes is not looked at.
    """
    text, holders = f"and {backwards[::-1]}", set()
    met: dict[int, Any] = {id(store): store}
    waiting: list[Any] = [store]
    while waiting:
        each = waiting.pop()
        for held in gc.get_referents(each):
            if type(held) is str and held.endswith(text):
                holders.add(type(each).__name__)
            elif id(held) not in met and gc.is_tracked(held) and not _is_shared(held):
                met[id(held)] = held
                waiting.append(held)
    return sorted(holders)


def _is_shared(held: Any) -> bool:
    """Return True for modules, classes, functions and event loops, and for the names of a module."""
    shared = (ModuleType, type, FunctionType, asyncio.AbstractEventLoop)
    return isinstance(held, shared) or (type(held) is dict and "__builtins__" in held)
