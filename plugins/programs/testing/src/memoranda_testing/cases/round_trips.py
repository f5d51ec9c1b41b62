"""What is stored comes back as it was, and callers cannot change it by holding on to it."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections.abc import Iterator
from copy import copy
from typing import Any

from memoranda.errors import InputError
from memoranda.items import (
    BUILTIN_TYPES,
    AIMemory,
    BranchMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    MemoryStatus,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.store import Store
from memoranda_testing.case import made, note
from memoranda_testing.expect import equal, that
from memoranda_testing.programs import Calls, HistoryCases, Program, item, mine, played

AWKWARD_JSON: dict[str, Any] = {
    "true": True,
    "one": 1,
    "one point nought": 1.0,
    "null": None,
    "empty": [{}, [], ""],
    "big": 2**70,
    "small": -0.1,
    "huge": 1.5e300,
    "nested": {"a": [1, {"b": [True, None]}]},
    "": "an empty key",
    "k.e'y\"$[0] %_\\": "ключ",
    "emoji": "🦉 and \u2028 a line separator",
}


NUMBERS: list[Any] = [
    *(0, 0.0, -0.0, 1, 1.0, -1, -1.0, True, False),
    *(2**53, 2**53 + 1, float(2**53), 2**63, 2**64, -(2**63), 10**400, -(10**400), 10**4000),
    *(0.1, 1 / 3, 0.1 + 0.2, 1.1e-7, 123456789.123456789, 1e15, 1e16, 1e22, 1e23, 10**23, 1.5e300),
    *(5e-324, 2.2250738585072014e-308, sys.float_info.max, sys.float_info.min, -sys.float_info.epsilon),
]
"""Numbers that one engine or another takes for others: by type, by sign, by rounding, by size."""

_ATOMS: list[Any] = [*NUMBERS, None, "", "0", "-0.0", "1e5", "null", "\\u0000", "é", "🦉", "a\nb", '"', "\u2028"]
_KEYS = ["", "z", "a", "aa", "b", "10", "9", "Z", "é", "__proto__", "user_id", "extra", "a.b", '"', "🦉"]


def random_json(randomly: random.Random, depth: int = 4) -> Any:
    """Return a JSON value that is hard to keep: numbers of every kind, objects and lists inside each other."""
    kind = randomly.random()
    if depth and kind < 0.35:
        keys = randomly.sample(_KEYS, randomly.randrange(5))
        return {key: random_json(randomly, depth - 1) for key in keys}
    if depth and kind < 0.6:
        return [random_json(randomly, depth - 1) for _ in range(randomly.randrange(5))]
    return randomly.choice(_ATOMS)


_KINDS: list[type[MemoryItem]] = [MemoryItem, *(kind for kind in BUILTIN_TYPES.values() if kind is not BranchMemory)]
_OWN = ("id", "metadata", "version", "memory_type", "created_at", "updated_at", "ttl", "expires_at", "archived_by")
"""Fields that a store or a rule of their own decides on."""


def _takes(kind: type[MemoryItem], name: str, value: Any) -> bool:
    """Return True if items have this value in this field as it is."""
    try:
        item = kind(**{"content": "x", name: value})
    except InputError:
        return False
    return getattr(item, name) == value and type(getattr(item, name)) is type(value)


def kept(store: Calls, *given: MemoryItem) -> Program:
    """Add items and read each by its id, and all of their payloads; what is stored is read after every write."""
    for each in given:
        yield store.add(each)
        yield store.get(each.id)
    yield store.payloads()


def everywhere(value: Any) -> Iterator[MemoryItem]:
    """Yield items that have a JSON value in every place that can hold one."""
    yield item("in extra", metadata=mine(session_id="s", task_id="t", agent_id="a", extra={"value": value}))
    yield AIMemory(id="in a call", content="", tool_calls=[{"id": "c", "args": {"value": value}}], metadata=mine())
    yield made(MemoryItem, id="in a field", content="?", memory_type="not-installed", metadata=mine(), value=value)


def nested(*ids: str) -> list[MemoryItem]:
    """Return items with values inside of others in every place, and one whose places for them are empty."""
    extra = {"list": [1, {"a": [1]}], "object": {"b": [2]}}
    calls = [{"id": "c", "args": {"x": [1], "y": {"z": [1]}}}]
    full = [
        made(AIMemory, id=name, content="full", tool_calls=copied, metadata=mine(extra=extra), mood={"joy": [1]})
        for name, copied in zip(ids, itertools.repeat(calls))
    ]
    return [*full, made(AIMemory, id=f"{ids[0]} empty", content="empty", metadata=mine(), mood=[])]


class RoundTripCases(HistoryCases):
    """Items come back as they were stored."""

    @played
    def test_every_type_round_trips(self, store: Calls) -> Program:
        """An item comes back as the class that it was, with every field of its own."""
        calls: list[dict[str, Any]] = [
            {"id": "1", "name": "weather", "args": {"city": "Zürich", "days": 3, "metric": True}},
            {"id": "2"},
        ]
        yield from kept(
            store,
            SystemMemory(content="Be brief.", metadata=mine()),
            HumanMemory(content="Hi", name="Ada", metadata=mine()),
            AIMemory(content="", tool_calls=calls, metadata=mine()),
            ToolMemory(content="none", tool_call_id="1", tool_name="weather", is_error=True, metadata=mine()),
            SummaryMemory(
                content="They spoke of tea.",
                template="conversation",
                sources=["a", "b"],
                lasting=True,
                compaction="c",
                archives={"a": "1f", "b": "2e"},
                metadata=mine(),
            ),
            MemoryItem(content="plain", metadata=mine()),
            note("nobody's", MemoryMetadata(session_id="s")),
            *(item(f"status {status}", status=status) for status in MemoryStatus),
        )

    @played
    def test_what_replaces_a_less_trusted_item_comes_back(self, store: Calls) -> Program:
        """It has the old one's trust, and every other field to the last digit."""
        for trust in (None, "operator"):
            old = made(MemoryItem, id=f"{trust}", content="old", trust="external", metadata=mine())
            new = made(HumanMemory, id=old.id, content="new", metadata=mine(), mood=AWKWARD_JSON, numbers=NUMBERS)
            new.__dict__["trust"] = trust
            yield from kept(store, old, new)

    @played
    def test_any_json_round_trips(self, store: Calls) -> Program:
        """Whatever JSON is stored comes back the same, to the type and sign of every number and the order of keys."""
        deep: Any = -0.0
        for level in range(190):
            deep = [deep] if level % 2 else {"in": deep}
        randomly = random.Random(2024)
        drawn = [[random_json(randomly) for _ in range(6)] for _ in range(12)]
        ordered = {"zz": 1, "b": {"y": [{"2": 0, "10": 0, "1": 0}], "x": 2}, "a": 3}
        for value in (AWKWARD_JSON, NUMBERS, ordered, deep, *drawn):
            yield from kept(store, *everywhere(value))

    @played
    def test_every_field_keeps_values_that_count_as_false(self, store: Calls) -> Program:
        """Nought, False, empty texts and empty lists come back as they were, in each field that can have them."""
        for kind, value in itertools.product(_KINDS, (0, False, "", [], {})):
            fields = {name: copy(value) for name in kind.model_fields if name not in _OWN and _takes(kind, name, value)}
            if fields:
                yield from kept(store, kind(**{"content": "x", **fields, "metadata": mine()}))

    @played
    def test_every_field_keeps_long_texts(self, store: Calls) -> Program:
        """A text beyond 64 KiB comes back whole from each field that can have it."""
        text = "tëa " * 17_000
        for kind in _KINDS:
            fields = [name for name in kind.model_fields if name not in _OWN and _takes(kind, name, text)]
            yield from kept(store, kind(**{"content": "x", **dict.fromkeys(fields, text), "metadata": mine()}))

    @played
    def test_awkward_items_round_trip(self, store: Calls) -> Program:
        """Texts, ids, times and calls that engines trim, fold, round or take for one come back as they were."""
        empty = mine(session_id="", task_id="", agent_id="")
        yield from kept(store, item("", id="empty", name="", memory_type="", metadata=empty))
        texts: tuple[str, ...] = ("\r\n\t \x01\x7f", "'; DROP TABLE items; --", '{"json": "text"}', "e\u0301 is not é")
        texts += ("🦉👩‍👩‍👧‍👦\U0010ffff", "\ufeffBOM", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
        for text in texts:
            there = mine(session_id=text, namespace=(text, "x"), extra={text: text})
            yield from kept(store, item(text, name=text, metadata=there))
        yield store.purge(texts[0])  # It may write a file anew.
        ids = ("a:b/c d", "%_*?[x]{y}", "ключ'\"\\", "🦉", "x" * 400, "a", "A", "a ", "á", "a\u0301")
        yield from kept(store, *(item(f"text of {name}", id=name) for name in ids))
        yield from map(store.get, ids)
        ends = ("0001-01-01T00:00:00.000001+00:00", "1969-12-31T23:59:59.999999+00:00", "9999-12-31T23:59:59+00:00")
        changed = "2024-02-29T12:00:00.123456+05:45"
        yield from kept(store, *(item(text, created_at=text, updated_at=changed) for text in ends))
        calls = [{"id": "c", "name": "b"}, {"id": "c", "name": "a"}, {"id": "b"}, {"id": "c", "name": "b"}]
        yield from kept(store, AIMemory(id="calls", content="x", tool_calls=calls, metadata=mine()))

    async def test_twenty_megabytes_round_trip(self, store: Store) -> None:
        """A content of 20 MB is stored and comes back whole."""
        content = "Зима 2024. " * (20_000_000 // 16)
        large = note(content, self.scope())
        await store.add(large)
        found = await store.get(large.id)
        that(found is not None and found.content == content, "A content of 20 MB came back changed or not at all.")

    @played
    def test_changing_an_item_changes_nothing_stored(self, store: Calls) -> Program:
        """Every write keeps a copy, and every read returns one: what callers change later, at any depth, is theirs."""
        # What is given and what is returned is changed after each call.
        yield from map(store.add, nested("added"))
        yield store.add_many(nested("a", "b"))
        yield store.append(nested("c"), after="b empty")
        yield store.append(nested("c"), after="a empty")
        yield store.apply(adds=nested("d"), deletes=["a"])
        for version in (0, 1):
            updates = [each.model_copy(update={"version": version}) for each in nested("e")]
            yield from map(store.update, updates)
            yield store.update_many([each.model_copy(update={"version": version}) for each in nested("f")])
        yield from (store.add_many(nested("b", "d")), store.apply(adds=nested("d")))
        ids = [each.id for each in nested("added", "b", "c", "d", "e", "f")]
        for mode in ("substring", "text"):
            yield from (store.search(query="full", mode=mode) for _ in range(2))
        for read in (store.search(), store.scan(), store.window(), store.get_many(ids), *map(store.get, ids)):
            yield from (read, read)
        yield store.pop()
        yield store.scan(include_deleted=True)
        yield store.restore()

    async def test_items_that_are_read_together_share_nothing(self, store: Store) -> None:
        """Changing one result of a search or a scan, its empty extra too, leaves the others as they are."""
        scope = self.scope()
        await store.add_many([note("first", scope), note("second", scope, 1)])
        for one, other in (
            await store.search(metadata=scope),
            [each async for each in store.scan(metadata=scope)],
        ):
            one.metadata.extra["edited"] = True
            equal(other.metadata.extra, {}, "the extra of the other result")

    async def test_changing_an_item_while_it_is_added_changes_nothing_stored(self, store: Store) -> None:
        """What counts is the item as it was when add, add_many or update was called."""
        scope = self.scope()
        handle = store.scoped(user_id=str(scope.user_id))  # Whose scope the items carry already.
        text = "stored " * 40_000  # So much that a store may take its time.
        items = [note(text, scope, number, tags=["x"]) for number in range(5)]
        calls = [store.add(items[0]), store.add_many([items[1]]), store.update(items[2])]
        calls += [handle.add(items[3]), handle.add_many([items[4]])]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        for each in items:
            each.content = "edited"
            each.model_extra["tags"].append("y")  # type: ignore[index]  # it was given just above
        await asyncio.gather(*tasks)
        found = await store.search(metadata=scope)
        equal([(each.content, each.model_extra) for each in found], [(text, {"tags": ["x"]})] * 5, "the items")
