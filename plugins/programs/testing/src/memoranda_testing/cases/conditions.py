"""Conditions: on values of every kind, and of a kind that a store does not know."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from memoranda.errors import UnsupportedError
from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda.store.backend import ITEM_FIELDS, Change, Condition, Filter, Page, Write, best_of, items_where
from memoranda_testing.case import Cases, note
from memoranda_testing.expect import contents, equal
from memoranda_testing.programs import Calls, HistoryCases, Program, item, mine, played

MODES = {"text": Capability.TEXT, "semantic": Capability.SEMANTIC, "hybrid": Capability.HYBRID}


@dataclass(frozen=True, slots=True)
class StartsWith(Condition):
    """The content starts with a text: a kind of condition that no store knows."""

    beginning: str

    def matches(self, item: MemoryItem) -> bool:
        """Return True if the item matches."""
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
    """A store applies every condition of a filter, or refuses it."""

    async def _tea(self, store: Store, kind: type[StartsWith]) -> Filter:
        """Add items and return a filter that matches a few of them."""
        scope = self.scope(session_id="s")
        said = ("kept tea", "other tea", "kept tea too", "other", "tea kept", "")
        await store.add_many([note(content, scope, second) for second, content in enumerate(said)])
        return replace(Filter.of(metadata=scope, archived=None), further=(kind("kept"),))

    async def test_an_unheard_of_condition_bounds_what_is_read(self, store: Store) -> None:
        """Search, count and scan apply a condition of any kind, alone and beside others, or raise UnsupportedError."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            shown = replace(wanted, archived=False)

            async def found(wanted: Filter = shown, limit: int = 10) -> list[str]:
                return contents(await store.engine.read(items_where(wanted, Page(limit))))

            async def scanned(wanted: Filter = wanted) -> list[str]:
                return [item.content async for item in store.engine.stream(items_where(wanted))]

            async def counted(wanted: Filter = wanted) -> int:
                return await store.engine.count(items_where(wanted))

            await applied(found, ["kept tea too", "kept tea"], "search")
            await applied(lambda: found(limit=1), ["kept tea too"], "search for one")
            await applied(lambda: found(replace(shown, query="too")), ["kept tea too"], "search by text")  # noqa: B023
            await applied(lambda: found(replace(shown, memory_type="x")), [], "search by type")  # noqa: B023
            await applied(scanned, ["kept tea", "kept tea too"], "scan")
            await applied(counted, 2, "count")

    async def test_an_unheard_of_condition_bounds_what_is_ranked(self, store: Store) -> None:
        """A ranked search of every mode applies a condition of any kind before its limit, or refuses it."""
        for kind in KINDS:
            wanted = replace(await self._tea(store, kind), archived=False)
            for mode in [mode for mode, capability in MODES.items() if capability in store.capabilities]:

                async def ranked(limit: int, mode: Any = mode, wanted: Filter = wanted) -> list[str]:
                    found = await store.engine.read(best_of("tea", wanted, limit, mode))
                    return sorted(each.item.content for each in found)

                await applied(lambda: ranked(10), ["kept tea", "kept tea too"], f"{mode} ranking")
                await applied(lambda: ranked(2), ["kept tea", "kept tea too"], f"{mode} ranking of two")

    async def test_an_unheard_of_condition_bounds_what_is_changed(self, store: Store) -> None:
        """Clearing, restoring and purging reach nothing that a condition of any kind excludes, not even by its id."""
        names: list[Literal["delete", "restore", "purge"]] = ["delete"]
        if Capability.DELETE in store.capabilities:
            names.append("restore")
        if Capability.PURGE in store.capabilities:
            names.append("purge")
        for kind, name in itertools.product(KINDS, names):
            wanted = await self._tea(store, kind)
            asked: dict[str, Any] = {"metadata": wanted.metadata, "order": "added"}
            other = (await store.search(metadata=wanted.metadata, query="other tea"))[0]
            said = contents(await store.search(**asked))
            if name == "restore":
                await store.clear(metadata=wanted.metadata)
            if name != "delete":
                equal(await _changed(store, Change(name, wanted, [other.id])), 0, f"{name} by an id that is excluded")
            changed, found = await _changed(store, Change(name, wanted)), contents(await store.search(**asked))
            reached = [text for text in said if changed and text.startswith("kept")]
            shown = reached if name == "restore" else [text for text in said if text not in reached]
            equal((changed, found), (len(reached), shown), f"what {name} reached, and what is there afterwards")


async def _changed(store: Store, change: Change) -> int:
    """Return how many items a change reached; none if it refuses the condition."""
    try:
        return (await store.engine.write(Write(change=change))).changed
    except UnsupportedError:
        return 0


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.0, 1.5, 2, 10, 2**53, 2**53 + 1, 10**30, -0.0, 1e300),
    *("", "a", "B", "b", "1", "10", "2", "é", "z", "𝔸", "￿", "%", "a'b", 'a"b', "\\", "true", "null"),
    *([], [1], [1.0], [True], ["1"], {}, {"a": 1}, {"a": 1.0}, {"b": [None, 1]}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    *([{"x": 0}], [{"x": -0.0}]),
]
"""Values that engines take for one another, or sort in a way of their own."""

KEYS = [
    *("k", "K", "k.k", "$k", "'", '"', "k'] = 1 --", "a b", "", "é", "%", "?", ":k", "$.k", "k[0]", "status"),
    *('say "k"', '\\"'),
]
"""Keys that are no names of columns, however they look."""

FIELDS = [name for name in ITEM_FIELDS if not name.endswith("_at")]
"""Fields of items that a condition can name, besides times."""


class ValueCases(HistoryCases):
    """Conditions on values."""

    @played
    def test_operators_mean_the_same_everywhere(self, store: Calls) -> Program:
        """Every operator, and a filter of ``extra``, finds what Value.matches says, a missing key included."""
        yield store.add_many(
            [item(f"{number}", number, mine(extra={"k": value, "w": 1})) for number, value in enumerate(VALUES)]
        )
        yield store.add(item("missing"))
        for extra in (*({"k": value} for value in VALUES), {"k": 1, "w": 1}, {"w": 2}, {"absent": None}, {}):
            yield from (read(metadata=mine(extra=extra)) for read in (store.scan, store.count))
        asked: list[tuple[str, Any]] = [("$exists", True), ("$exists", False), ("$in", []), ("$in", VALUES[3:9])]
        asked += [(operator, value) for operator in ("$eq", "$ne") for value in VALUES]
        ordered = [value for value in VALUES if isinstance(value, (int, float, str)) and not isinstance(value, bool)]
        asked += [(operator, value) for operator in ("$gt", "$gte", "$lt", "$lte") for value in ordered]
        yield from (store.search(where={"k": {operator: value}}, limit=1000) for operator, value in asked)

    @played
    def test_keys_are_data(self, store: Calls) -> Program:
        """A key is compared as it is, whatever it looks like to an engine, and whatever its value and the operator."""
        kinds: tuple[Callable[[int], Any], ...] = (int, str, lambda number: [number], lambda number: {"n": number})
        for place, kind in zip("abcd", kinds, strict=True):
            scope = mine(session_id=place)
            extras = [{key: kind(number), f"x{key}": -1} for number, key in enumerate(KEYS)]
            batch = [scope.model_copy(update={"extra": extra}) for extra in extras]
            yield store.add_many([item(f"{place}{number}", number, each) for number, each in enumerate(batch)])
            for number, key in enumerate(KEYS):
                asked = {"$eq": kind(number), "$ne": kind(number), "$in": [kind(number)], "$exists": True}
                asked |= {"$gte": kind(number)} if kind in (int, str) else {}
                for operator, value in asked.items():
                    yield store.search(metadata=scope, where={f"extra.{key}": {operator: value}}, limit=100)
                yield store.search(metadata=scope.model_copy(update={"extra": {key: kind(number)}}), limit=100)
                yield store.count(metadata=scope, where={f"extra.{key}": {"$exists": True}})

    @played
    def test_fields_of_items_compare_with_anything(self, store: Calls) -> Program:
        """A value that a field never has is equal to none, whatever its type."""
        owl = mine(session_id="\U0001f989", task_id="\uff54", agent_id="T")
        yield store.add_many([item("one", 1, mine(session_id="s"), name="Ada"), item("2", 2)])
        yield store.add(item("\U0001f989", 3, owl, name="\uff54", memory_type="\U0001f989"))
        alike = ("ada", "ADA", "Ada ", "Ada\u0301", "ONE", "S", "NOTE", "Note", "\uff34")
        values = [None, "", "one", "s", 1, 1.0, 2**80, True, [], ["s"], [[1]], {"s": 1}]
        bounds = ("", "T", "s", "\uff54", "\U0001f989", 1)
        for name in FIELDS:
            yield from (store.search(where={name: {"$eq": value}}) for value in (*values, *alike))
            yield from (store.search(where={name: {"$ne": value}}) for value in values)
            yield from (store.search(where={name: {"$in": [value, "one"]}}) for value in values)
            for operator, bound in itertools.product(("$gt", "$gte", "$lt", "$lte"), bounds):
                yield store.search(where={name: {operator: bound}})
