"""Conditions of a kind that a store has never heard of: applied or refused, and never passed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from memoranda.errors import UnsupportedError
from memoranda.items import MemoryItem
from memoranda.store import BaseStore, Capability, Condition, Filter, Page
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.expect import contents, equal

MODES = {"text": Capability.TEXT, "semantic": Capability.SEMANTIC, "hybrid": Capability.HYBRID}


@dataclass(frozen=True, slots=True)
class StartsWith(Condition):
    """The content starts with a text: a kind that there is nowhere else."""

    beginning: str

    def matches(self, item: MemoryItem) -> bool:
        """Whether an item passes."""
        return item.content.startswith(self.beginning)


@dataclass(frozen=True, slots=True)
class WithinStartsWith(StartsWith):
    """The same, where it says where to look."""

    bounds_scope = True


KINDS: tuple[type[StartsWith], ...] = (StartsWith, WithinStartsWith)


async def applied(call: Callable[[], Awaitable[Any]], wanted: object, what: str) -> None:
    """Fail unless the call gives what is wanted or refuses the condition."""
    try:
        found = await call()
    except UnsupportedError:
        return
    equal(found, wanted, f"{what} with a condition that the store has never heard of")


class ConditionCases(Cases):
    """A store applies every condition of a filter, or says that it cannot."""

    async def _tea(self, store: BaseStore, kind: type[StartsWith]) -> Filter:
        """Add items, a few of which match the filter that is returned."""
        scope = self.scope(session_id="s")
        said = ("kept tea", "other tea", "kept tea too", "other", "tea kept", "")
        await store.add_many([note(content, scope, second) for second, content in enumerate(said)])
        return replace(Filter.of(metadata=scope, archived=None), further=(kind("kept"),))

    async def test_an_unheard_of_condition_bounds_what_is_read(self, store: BaseStore) -> None:
        """Search, count and scan apply a condition of any kind, alone and beside others, or raise UnsupportedError."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            shown = replace(wanted, archived=False)

            async def found(wanted: Filter = shown, limit: int = 10) -> list[str]:
                return contents(await store._search(wanted, Page(limit)))

            async def scanned(wanted: Filter = wanted) -> list[str]:
                return [item.content async for item in store._scan(wanted, False, "created")]

            async def counted(wanted: Filter = wanted) -> int:
                return await store._count(wanted, False)

            await applied(found, ["kept tea too", "kept tea"], "search")
            await applied(lambda: found(limit=1), ["kept tea too"], "search for one")
            await applied(lambda: found(replace(shown, query="too")), ["kept tea too"], "search by text")  # noqa: B023
            await applied(lambda: found(replace(shown, memory_type="x")), [], "search by type")  # noqa: B023
            await applied(scanned, ["kept tea", "kept tea too"], "scan")
            await applied(counted, 2, "count")

    async def test_an_unheard_of_condition_bounds_what_is_ranked(self, store: BaseStore) -> None:
        """A ranked search of every mode applies a condition of any kind before its limit, or refuses it."""
        for kind in KINDS:
            wanted = replace(await self._tea(store, kind), archived=False)
            for mode in [mode for mode, capability in MODES.items() if capability in store.capabilities]:

                async def ranked(limit: int, mode: Any = mode, wanted: Filter = wanted) -> list[str]:
                    found = await store._rank("tea", wanted, limit, mode)
                    return sorted(each.item.content for each in found)

                await applied(lambda: ranked(10), ["kept tea", "kept tea too"], f"{mode} ranking")
                await applied(lambda: ranked(2), ["kept tea", "kept tea too"], f"{mode} ranking of two")

    async def test_an_unheard_of_condition_bounds_what_is_cleared(self, store: BaseStore) -> None:
        """Clearing removes nothing that a condition of any kind excludes."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            before = await store.count(metadata=wanted.metadata)
            removed = await _removed(store._clear(wanted))
            left = await store.count(metadata=wanted.metadata)
            equal((removed, left), (2, before - 2) if removed else (0, before), "removed and left")

    @needs(Capability.DELETE)
    async def test_an_unheard_of_condition_bounds_what_is_restored(self, store: BaseStore) -> None:
        """Restoring brings nothing back that a condition of any kind excludes, by its id neither."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            other = (await store.search(metadata=wanted.metadata, query="other tea"))[0]
            await store.clear(metadata=wanted.metadata)
            equal(await _removed(store._restore(other.id, wanted)), 0, "restored by an id that is excluded")
            restored = await _removed(store._restore(None, wanted))
            back = contents(await store.search(metadata=wanted.metadata))
            equal(back, ["kept tea too", "kept tea"] if restored else [], "what came back")

    @needs(Capability.PURGE)
    async def test_an_unheard_of_condition_bounds_what_is_purged(self, store: BaseStore) -> None:
        """Purging removes nothing that a condition of any kind excludes, by its id neither."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            other = (await store.search(metadata=wanted.metadata, query="other tea"))[0]
            before = await store.count(metadata=wanted.metadata)
            equal(await _removed(store._purge(other.id, wanted, False)), 0, "purged by an id that is excluded")
            purged = await _removed(store._purge(None, wanted, False))
            left = await store.count(metadata=wanted.metadata)
            equal((purged, left), (2, before - 2) if purged else (0, before), "purged and left")


async def _removed(call: Awaitable[int]) -> int:
    """Return how many items a call reached; none if it refuses the condition."""
    try:
        return await call
    except UnsupportedError:
        return 0
