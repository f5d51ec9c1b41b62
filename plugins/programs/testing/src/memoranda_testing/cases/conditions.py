"""Conditions: on values of every kind, and of a kind that a store does not know."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from memoranda.errors import InputError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda.store.backend import ITEM_FIELDS, Change, Condition, Filter, Page, Value, Write, best_of, items_where
from memoranda_testing.case import Cases, moment, needs, note
from memoranda_testing.expect import contents, each_raises, equal

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

    async def test_an_unheard_of_condition_bounds_what_is_cleared(self, store: Store) -> None:
        """Clearing removes nothing that a condition of any kind excludes."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            before = await store.count(metadata=wanted.metadata)
            removed = await _changed(store, Change("delete", wanted))
            left = await store.count(metadata=wanted.metadata)
            equal((removed, left), (2, before - 2) if removed else (0, before), "removed and left")

    @needs(Capability.DELETE)
    async def test_an_unheard_of_condition_bounds_what_is_restored(self, store: Store) -> None:
        """Restoring brings nothing back that a condition of any kind excludes, not even by its id."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            other = (await store.search(metadata=wanted.metadata, query="other tea"))[0]
            await store.clear(metadata=wanted.metadata)
            equal(await _changed(store, Change("restore", wanted, [other.id])), 0, "restored by an id that is excluded")
            restored = await _changed(store, Change("restore", wanted))
            back = contents(await store.search(metadata=wanted.metadata))
            equal(back, ["kept tea too", "kept tea"] if restored else [], "what came back")

    @needs(Capability.PURGE)
    async def test_an_unheard_of_condition_bounds_what_is_purged(self, store: Store) -> None:
        """Purging removes nothing that a condition of any kind excludes, not even by its id."""
        for kind in KINDS:
            wanted = await self._tea(store, kind)
            other = (await store.search(metadata=wanted.metadata, query="other tea"))[0]
            before = await store.count(metadata=wanted.metadata)
            equal(await _changed(store, Change("purge", wanted, [other.id])), 0, "purged by an id that is excluded")
            purged = await _changed(store, Change("purge", wanted))
            left = await store.count(metadata=wanted.metadata)
            equal((purged, left), (2, before - 2) if purged else (0, before), "purged and left")


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
]
"""Values that engines take for one another, or sort in a way of their own."""

KEYS = [
    *("k", "K", "k.k", "$k", "'", '"', "k'] = 1 --", "a b", "", "é", "%", "?", ":k", "$.k", "k[0]", "status"),
    *('say "k"', '\\"'),
]
"""Keys that are no names of columns, however they look."""

FIELDS = [name for name in ITEM_FIELDS if not name.endswith("_at")]
"""Fields of items that a condition can name, besides times."""


CHANGES: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("session_id", "task_id", "agent_id"), ("s", "t")),
    "namespace": (("a",), ("b",)),
    "extra": ({"k": 1}, {"k": 2}),
    "name": ("Ada", "Bob"),
    "content": ("tea", "milk"),
    "memory_type": ("note", "diary"),
    "status": ("accepted", "draft"),
    "archived_by": (None, "summary"),
}
"""Fields, each with two values that an item may have one after the other."""


def _with(item: MemoryItem, name: str, value: Any) -> MemoryItem:
    if name in MemoryMetadata.model_fields:
        return item.model_copy(update={"metadata": item.metadata.model_copy(update={name: value})})
    return item.model_copy(update={name: value})


def _asking_for(scope: MemoryMetadata, name: str, value: Any) -> dict[str, Any]:
    """Return filters that find what has this value."""
    if name in MemoryMetadata.model_fields:
        return {"metadata": scope.model_copy(update={name: value})}
    if name in ("memory_type", "status"):
        return {"metadata": scope, name: value}
    if name == "archived_by":
        return {"metadata": scope, "archived": value is not None}
    return {"metadata": scope, "where": {name: value}}


class ValueCases(Cases):
    """Conditions on values."""

    async def test_operators_mean_the_same_everywhere(self, store: Store) -> None:
        """Every operator on every kind of value finds what Value.matches says, a missing key included."""
        scope = self.scope()
        items = [
            note(f"{number}", MemoryMetadata(user_id=scope.user_id, extra={"k": value}), number)
            for number, value in enumerate(VALUES)
        ]
        items.append(note("missing", scope, len(VALUES)))
        await store.add_many(items)
        asked: list[tuple[str, Any]] = [("$exists", True), ("$exists", False), ("$in", []), ("$in", VALUES[3:9])]
        asked += [(operator, value) for operator in ("$eq", "$ne") for value in VALUES]
        ordered = [value for value in VALUES if isinstance(value, (int, float, str)) and not isinstance(value, bool)]
        asked += [(operator, value) for operator in ("$gt", "$gte", "$lt", "$lte") for value in ordered]
        for operator, value in asked:
            wanted = [item.content for item in items if Value("k", True, operator, value).matches(item)]
            found = await store.search(metadata=scope, where={"k": {operator: value}}, limit=1000)
            equal(contents(found)[::-1], wanted, f"where k is {operator} {value!r}")

    async def test_keys_are_data(self, store: Store) -> None:
        """A key is compared as it is, whatever it looks like to an engine, and whatever its value and the operator."""
        kinds: tuple[Callable[[int], Any], ...] = (int, str, lambda number: [number], lambda number: {"n": number})
        for kind in kinds:
            scope = self.scope()
            items = [
                note(key, MemoryMetadata(user_id=scope.user_id, extra={key: kind(number), f"x{key}": -1}), number)
                for number, key in enumerate(KEYS)
            ]
            await store.add_many(items)
            for number, key in enumerate(KEYS):
                asked = [("$eq", kind(number)), ("$ne", kind(number)), ("$in", [kind(number)]), ("$exists", True)]
                for operator, value in [*asked, *([("$gte", kind(number))] if kind in (int, str) else [])]:
                    wanted = [item.content for item in items if Value(key, True, operator, value).matches(item)]
                    found = await store.search(metadata=scope, where={f"extra.{key}": {operator: value}}, limit=100)
                    equal(contents(found)[::-1], wanted, f"where extra.{key!r} is {operator} {value!r}")
                count = await store.count(metadata=scope, where={f"extra.{key}": {"$exists": True}})
                equal(count, 1, f"count with extra.{key!r}")

    async def test_fields_of_items_can_be_asked_for(self, store: Store) -> None:
        """The names of an item's fields are those fields; an item without one has None."""
        scope = self.scope(session_id="s")
        first = note("one", scope, 1, name="Ada", status="draft")
        second = note("two", MemoryMetadata(user_id=scope.user_id, extra={"name": "Ada"}), 2)
        await store.add_many([first, second])
        wanted: list[tuple[dict[str, Any], list[str]]] = [
            ({"name": "Ada"}, ["one"]),
            ({"name": None}, ["two"]),
            ({"name": {"$exists": False}}, ["two"]),
            ({"extra.name": "Ada"}, ["two"]),
            ({"status": "draft"}, ["one"]),
            ({"status": {"$ne": "draft"}}, ["two"]),
            ({"session_id": {"$exists": True}}, ["one"]),
            ({"created_at": {"$gte": moment(2)}}, ["two"]),
            ({"created_at": {"$lt": moment(2)}, "memory_type": "note"}, ["one"]),
            ({"version": {"$gte": 1}}, ["two", "one"]),
            ({"version": {"$gt": 1}}, []),
            ({"id": {"$in": [first.id, "nobody"]}}, ["one"]),
            ({"content": {"$gt": "one", "$lte": "two"}}, ["two"]),
            ({"namespace": {"$exists": False}}, ["two", "one"]),
        ]
        for where, texts in wanted:
            equal(
                contents(await store.search(metadata=MemoryMetadata(user_id=scope.user_id), where=where)),
                texts,
                f"where {where!r}",
            )

    async def test_fields_of_items_compare_with_anything(self, store: Store) -> None:
        """A value that a field never has is equal to none, whatever its type."""
        scope = self.scope(session_id="s")
        mine = MemoryMetadata(user_id=scope.user_id)
        owl = MemoryMetadata(user_id=scope.user_id, session_id="\U0001f989", task_id="\uff54", agent_id="T")
        await store.add_many([note("one", scope, 1, name="Ada"), note("2", mine, 2)])
        await store.add(note("\U0001f989", owl, 3, name="\uff54", memory_type="\U0001f989"))
        items = await store.search(metadata=mine)
        values = [None, "", "one", "s", 1, 1.0, 2**80, True, [], ["s"], [[1]], {"s": 1}]
        for name, operator, value in itertools.product(FIELDS, ("$eq", "$ne", "$in"), values):
            asked = [value, items[0].id] if operator == "$in" else value
            wanted = [item.content for item in items if Value(name, False, operator, asked).matches(item)]
            found = await store.search(metadata=mine, where={name: {operator: asked}})
            equal(contents(found), wanted, f"where {name} is {operator} {asked!r}")
        alike = ("ada", "ADA", "Ada ", "Ada\u0301", "ONE", "S", "NOTE", "Note", "\uff34")
        for name, value in itertools.product(FIELDS, alike):
            wanted = [item.content for item in items if Value(name, False, "$eq", value).matches(item)]
            equal(
                contents(await store.search(metadata=mine, where={name: value})), wanted, f"where {name} is {value!r}"
            )
        ordered = ("", "T", "s", "\uff54", "\U0001f989", 1)
        for name, operator, bound in itertools.product(FIELDS, ("$gt", "$gte", "$lt", "$lte"), ordered):
            wanted = [item.content for item in items if Value(name, False, operator, bound).matches(item)]
            found = await store.search(metadata=mine, where={name: {operator: bound}})
            equal(contents(found), wanted, f"where {name} is {operator} {bound!r}")

    async def test_a_field_that_changes_alone_is_found_as_it_is(self, store: Store) -> None:
        """Of an item that else stays the same, its time included, a filter finds the new value and not the old one."""
        owner = self.scope(session_id="s")
        scope = MemoryMetadata(user_id=owner.user_id)
        for name, values in CHANGES.items():
            item = _with(note("tea", owner), name, values[0])
            await store.add(item)
            writes: list[Callable[[MemoryItem], Awaitable[object]]] = [
                store.add,
                store.update,
                lambda one: store.add_many([one]),
                lambda one: store.apply(adds=[one]),
                lambda one: store.update_many([one]),
            ]
            for number, write in enumerate(writes):
                for value in values:
                    await store.search(**_asking_for(scope, name, value))
                held = await store.get(item.id)
                assert held is not None
                await write(_with(held, name, values[(number + 1) % 2]))
                for place, value in enumerate(values):
                    asked = _asking_for(scope, name, value)
                    found = await store.search(**asked), [each async for each in store.scan(**asked)]
                    wanted = int(place == (number + 1) % 2)
                    equal([*map(len, found)], [wanted, wanted], f"how many items are found by {name} {value!r}")
            await store.clear(metadata=scope)

    async def test_conditions_apply_to_every_call(self, store: Store) -> None:
        """Listing, ranking, counting, scanning, the window and clearing all respect them."""
        scope = self.scope()
        for number in range(4):
            extra = {"score": number, "kind": "fact"}
            await store.add(note(f"tea {number}", MemoryMetadata(user_id=scope.user_id, extra=extra), number))
        where = {"score": {"$gte": 1, "$lt": 3}, "kind": "fact"}
        equal(contents(await store.search(metadata=scope, where=where)), ["tea 2", "tea 1"], "search")
        ranked = await store.search_ranked(query="tea", metadata=scope, where=where, mode="text")
        equal(sorted(contents(found.item for found in ranked)), ["tea 1", "tea 2"], "ranked search")
        equal(await store.count(metadata=scope, where=where), 2, "count")
        equal(contents([item async for item in store.scan(metadata=scope, where=where)]), ["tea 1", "tea 2"], "scan")
        equal(contents(await store.window(metadata=scope, where=where)), ["tea 1", "tea 2"], "window")
        equal(await store.clear(metadata=scope, where=where), 2, "number cleared")
        equal(contents(await store.search(metadata=scope)), ["tea 3", "tea 0"], "what is left")

    async def test_what_cannot_be_asked_is_refused(self, store: Store) -> None:
        """Unknown operators, values without an order, and more than can be meant are InputErrors."""
        bad: list[Any] = [
            *("score", ["score"], {"k": {"$near": 1}}, {"k": {"$gt": None}}, {"k": {"$lt": [1]}}, {"k": {"$in": 3}}),
            *({"k": {"$exists": 1}}, {"k": {"$eq": 1, "x": 2}}, {1: 2}, {"k": float("nan")}, {"k": {"$in": "abc"}}),
            *({"created_at": "soon"}, {"k": {"$gt": True}}, {f"k{number}": 1 for number in range(65)}),
        ]
        for where in bad:
            await each_raises(
                InputError, f"where {where!r}", search=store.search(where=where), count=store.count(where=where)
            )
