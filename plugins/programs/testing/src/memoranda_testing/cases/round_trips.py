"""What is stored comes back as it was, and callers cannot change it by holding on to it."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
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
    Payload,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.store import Capability, Store, dump_item
from memoranda_testing.case import Cases, made, moment, needs, note
from memoranda_testing.expect import equal, same_item, that

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


async def returns(store: Store, item: MemoryItem, what: str) -> None:
    """Check the item by every way of reading it."""
    await store.add(item)
    same_item(await store.get(item.id), item, f"get of {what}", version=1)
    found = await store.search(metadata=item.metadata)
    equal([each.id for each in found], [item.id], f"search for {what}")
    same_item(found[0], item, f"search for {what}", version=1)
    scanned = [each async for each in store.scan(metadata=item.metadata)]
    equal([each.id for each in scanned], [item.id], f"scan for {what}")
    same_item(scanned[0], item, f"scan for {what}", version=1)
    equal(await store.payloads(metadata=item.metadata), [Payload.of(item)], f"payloads for {what}")


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


WRITING: dict[str, Callable[[Store, list[MemoryItem]], Awaitable[Any]]] = {
    "add": lambda store, items: _each(store.add, items),
    "add_many": lambda store, items: store.add_many(items),
    "append": lambda store, items: store.append(items, after=None),
    "apply": lambda store, items: store.apply(adds=items),
    "update": lambda store, items: _each(store.update, items),
    "update_many": lambda store, items: store.update_many(items),
}
READING: dict[str, Callable[[Store, MemoryMetadata, list[str]], Awaitable[list[MemoryItem]]]] = {
    "get": lambda store, mine, ids: _each(store.get, ids),
    "get_many": lambda store, mine, ids: store.get_many(ids),
    "search": lambda store, mine, ids: store.search(metadata=mine),
    "search by a substring": lambda store, mine, ids: store.search(query="full", mode="substring", metadata=mine),
    "search by words": lambda store, mine, ids: store.search(query="full", mode="text", metadata=mine),
    "scan": lambda store, mine, ids: _all(store.scan(metadata=mine)),
    "window": lambda store, mine, ids: store.window(metadata=mine),
}


async def _each(call: Callable[[Any], Awaitable[Any]], values: Iterable[Any]) -> list[Any]:
    return [await call(value) for value in values]


async def _all(found: AsyncIterator[MemoryItem]) -> list[MemoryItem]:
    return [item async for item in found]


def _edit(item: MemoryItem) -> None:
    """Change everything that can be changed in an item, at every depth."""
    for value in (*item.__dict__.values(), item.metadata.extra, item.model_extra):
        _edit_value(value)
    item.content = "edited"


def _edit_value(value: Any) -> None:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in list(inner):
        _edit_value(each)
    if isinstance(value, dict):
        value["edited"] = True
    elif isinstance(value, list):
        value.append("edited")


class RoundTripCases(Cases):
    """Items come back as they were stored."""

    async def test_system_item_round_trips(self, store: Store) -> None:
        """A system item comes back as a SystemMemory with all its fields."""
        await returns(store, SystemMemory(content="Be brief.", metadata=self.scope()), "a system item")

    async def test_human_item_round_trips(self, store: Store) -> None:
        """A human item comes back as a HumanMemory with the name of who spoke."""
        await returns(store, HumanMemory(content="Hi", name="Ada", metadata=self.scope()), "a human item")

    async def test_ai_item_round_trips(self, store: Store) -> None:
        """An AI item comes back with its tool calls, arguments included."""
        calls = [
            {"id": "call-1", "name": "weather", "args": {"city": "Zürich", "days": 3, "metric": True}},
            {"id": "call-2", "name": "time", "args": {}},
        ]
        await returns(store, AIMemory(content="", tool_calls=calls, metadata=self.scope()), "an AI item")

    async def test_tool_item_round_trips(self, store: Store) -> None:
        """A tool item comes back with the call it answers and whether it failed."""
        item = ToolMemory(
            content="no such city", tool_call_id="call-1", tool_name="weather", is_error=True, metadata=self.scope()
        )
        await returns(store, item, "a tool item")

    async def test_summary_item_round_trips(self, store: Store) -> None:
        """A summary comes back with what it stands for."""
        item = SummaryMemory(
            content="They spoke of tea.",
            template="conversation",
            sources=["a", "b"],
            lasting=True,
            compaction="c",
            archives={"a": "1f", "b": "2e"},
            metadata=self.scope(),
        )
        await returns(store, item, "a summary")

    async def test_plain_item_round_trips(self, store: Store) -> None:
        """A MemoryItem comes back as a MemoryItem."""
        await returns(store, MemoryItem(content="plain", metadata=self.scope()), "a plain item")

    async def test_every_status_round_trips(self, store: Store) -> None:
        """Drafts, accepted and discarded items are all stored as they are."""
        for status in MemoryStatus:
            await returns(store, note("status", self.scope(), status=status), f"an item that is {status}")

    async def test_all_metadata_round_trips(self, store: Store) -> None:
        """Every field of the metadata comes back, with ``extra`` as deep and as typed as it was."""
        scope = self.scope(session_id="s", task_id="t", agent_id="a", extra=AWKWARD_JSON)
        await returns(store, note("metadata", scope), "an item with full metadata")

    async def _returns_values(self, store: Store, value: Any, what: str) -> None:
        """Check a JSON value in every place that can hold one."""
        scope = self.scope(extra={"value": value})
        await returns(store, note("extra", scope), f"{what} in extra")
        calls = [{"id": "c", "name": "f", "args": {"value": value}}]
        await returns(store, AIMemory(content="", tool_calls=calls, metadata=self.scope()), f"{what} in a call")
        item = made(MemoryItem, content="?", memory_type="not-installed", metadata=self.scope(), value=value)
        await returns(store, item, f"{what} in a field of an unknown type")

    async def test_numbers_round_trip(self, store: Store) -> None:
        """A number comes back as it was: whole or not, with its sign, which nought has too, and to the last digit."""
        await self._returns_values(store, NUMBERS, "numbers")

    async def test_what_replaces_a_less_trusted_item_comes_back(self, store: Store) -> None:
        """It has the old one's trust, and every other field to the last digit."""
        scope = self.scope()
        for fields in ({}, {"trust": "operator"}):
            old = made(MemoryItem, content="old", trust="external", metadata=scope)
            await store.add(old)
            new = made(
                HumanMemory, id=old.id, content="new", metadata=scope, mood=AWKWARD_JSON, numbers=NUMBERS, **fields
            )
            await store.add(new)
            wanted = new.model_copy(update={"trust": "external"})
            same_item(await store.get(old.id), wanted, "what replaced a less trusted item", version=2)

    async def test_keys_keep_their_order(self, store: Store) -> None:
        """An object comes back with its keys in the order they had, inside of others too."""
        await self._returns_values(store, {"zz": 1, "b": {"y": [{"2": 0, "10": 0, "1": 0}], "x": 2}, "a": 3}, "objects")

    async def test_deeply_nested_values_round_trip(self, store: Store) -> None:
        """Lists and objects come back whole, a hundred and ninety levels deep."""
        value: Any = -0.0
        for level in range(190):
            value = [value] if level % 2 else {"in": value}
        await self._returns_values(store, value, "a deeply nested value")

    async def test_any_json_round_trips(self, store: Store) -> None:
        """Whatever JSON is stored comes back the same, to the type and sign of every number and the order of keys."""
        randomly = random.Random(2024)
        for _ in range(12):
            await self._returns_values(store, [random_json(randomly) for _ in range(6)], "random JSON")

    async def test_empty_texts_round_trip(self, store: Store) -> None:
        """The empty text is a value of its own and does not turn into None."""
        scope = self.scope(session_id="", task_id="", agent_id="")
        await returns(store, note("", scope, name="", memory_type=""), "an item of empty texts")

    async def test_every_field_keeps_values_that_count_as_false(self, store: Store) -> None:
        """Nought, False, empty texts and empty lists come back as they were, in each field that can have them."""
        for kind, value in itertools.product(_KINDS, (0, False, "", [], {})):
            fields = {name: copy(value) for name in kind.model_fields if name not in _OWN and _takes(kind, name, value)}
            if fields:
                item = kind(**{"content": "x", **fields, "metadata": self.scope()})
                await returns(store, item, f"{value!r} in {', '.join(fields)}")

    async def test_every_field_keeps_long_texts(self, store: Store) -> None:
        """A text beyond 64 KiB comes back whole from each field that can have it."""
        text = "tëa " * 17_000
        for kind in _KINDS:
            fields = [name for name in kind.model_fields if name not in _OWN and _takes(kind, name, text)]
            item = kind(**{"content": "x", **dict.fromkeys(fields, text), "metadata": self.scope()})
            await returns(store, item, f"a long text in {', '.join(fields)}")

    async def test_item_without_owner_round_trips(self, store: Store) -> None:
        """An item whose user is None comes back with None."""
        scope = self.owned(MemoryMetadata(session_id=f"conform-{uuid.uuid4().hex}"))
        await returns(store, note("nobody's", scope), "an item without owner")

    async def test_awkward_texts_round_trip(self, store: Store) -> None:
        """Line ends, control characters, quotes, emoji and combining marks are kept to the last character."""
        texts = [
            "\r\n\t \x01\x7f",
            "'; DROP TABLE items; --",
            '{"json": "text"}',
            "e\u0301 is not é",
            "🦉👩‍👩‍👧‍👦\U0010ffff",
            "\ufeffBOM",
            "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029",
        ]
        items = []
        for text in texts:
            scope = self.scope(session_id=text, namespace=(text, "x"), extra={text: text})
            items.append(note(text, scope, name=text))
            await returns(store, items[-1], "an awkward text")
        if Capability.PURGE in store.capabilities:  # A purge may write a file anew.
            await store.purge(items[0].id)
            for item in items[1:]:
                same_item(await store.get(item.id), item, "get of an awkward text after a purge", version=1)

    async def test_awkward_ids_round_trip(self, store: Store) -> None:
        """An id is any text: long, in any script, with spaces, colons, slashes or wildcards."""
        for text in ("a:b/c d", "%_*?[x]{y}", "ключ'\"\\", "🦉", "x" * 400):
            item = note("by id", self.scope(), id=f"{text}{uuid.uuid4().hex}")
            await returns(store, item, "an item with an awkward id")

    async def test_ids_differ_by_case_and_spaces(self, store: Store) -> None:
        """Ids are compared exactly: case and trailing spaces count."""
        scope, stem = self.scope(), uuid.uuid4().hex
        ids = [f"{stem}a", f"{stem}A", f"{stem}a ", f"{stem}á", f"{stem}a\u0301"]
        for position, item_id in enumerate(ids):
            await store.add(note(str(position), scope, id=item_id))
        for position, item_id in enumerate(ids):
            found = await store.get(item_id)
            equal(found and found.content, str(position), f"content of id {item_id[32:]!r}")

    async def test_extreme_times_round_trip(self, store: Store) -> None:
        """Times keep their microseconds, from the year 1 to the year 9999."""
        for text in (
            "0001-01-01T00:00:00.000001+00:00",
            "1969-12-31T23:59:59.999999+00:00",
            "9999-12-31T23:59:59+00:00",
        ):
            item = note("time", self.scope(), created_at=text, updated_at="2024-02-29T12:00:00.123456+05:45")
            await returns(store, item, f"an item of {text}")

    async def test_twenty_megabytes_round_trip(self, store: Store) -> None:
        """A content of 20 MB is stored and comes back whole."""
        content = "Зима 2024. " * (20_000_000 // 16)
        item = note(content, self.scope())
        await store.add(item)
        found = await store.get(item.id)
        that(found is not None and found.content == content, "A content of 20 MB came back changed or not at all.")

    async def test_add_leaves_the_callers_item_alone(self, store: Store) -> None:
        """Adding changes nothing on the caller's item, its version included."""
        item = note("mine", self.scope(extra={"list": [1]}), mood=["calm"])
        before = dump_item(item)
        await store.add(item)
        await store.add_many([item])
        equal(dump_item(item), before, "the caller's item after adding")

    def _nested(self, scope: MemoryMetadata, number: int) -> list[MemoryItem]:
        """Return an item with values inside of others in every place, and one whose places for them are empty."""
        deep = scope.model_copy(update={"extra": {"list": [number, {"a": [1]}], "object": {"b": [2]}}})
        calls = [{"id": "c", "args": {"x": [1], "y": {"z": [1]}}}]
        full = made(AIMemory, content="full", tool_calls=calls, metadata=deep, mood={"joy": [1]}, created_at=moment(1))
        empty = made(AIMemory, content="empty", metadata=scope, mood=[], created_at=moment(2))
        return [full, empty]

    async def test_changing_an_item_after_adding_changes_nothing_stored(self, store: Store) -> None:
        """Whichever method stored an item, new or in place of another, changing it later changes nothing stored."""
        for again, (name, write) in itertools.product((False, True), WRITING.items()):
            if again and name == "append":
                continue
            scope = self.scope(session_id="s")
            items = self._nested(scope, 0)
            if again:
                await store.add_many(items)
                for item in items:
                    item.version = 1 if name.startswith("update") else 0
            before = [dump_item(item) | {"version": 1 + again} for item in items]
            await write(store, items)
            for item in items:
                _edit(item)
            found = await store.get_many([values["id"] for values in before])
            equal([dump_item(item) for item in found], before, f"what {name} stored, after the caller changed theirs")

    async def test_changing_what_was_read_changes_nothing_stored(self, store: Store) -> None:
        """Every read gives a copy of the caller's own, which shares nothing with the store or with other copies."""
        scope = self.scope(session_id="s")
        mine = MemoryMetadata(user_id=scope.user_id)
        await store.add_many([*self._nested(scope, 0), *self._nested(scope, 1)])
        before = [dump_item(item) async for item in store.scan(metadata=mine)]
        for name, read in READING.items():
            for item in await read(store, mine, [values["id"] for values in before]):
                _edit(item)
            for reading in (name, "get_many"):
                found = await READING[reading](store, mine, [values["id"] for values in before])
                by_id = {item.id: dump_item(item) for item in found}
                wanted = {values["id"]: values for values in before if values["id"] in by_id}
                equal(by_id, wanted, f"what {reading} reads after what {name} had read was changed")

    @needs(Capability.DELETE)
    async def test_changing_what_was_removed_changes_nothing_stored(self, store: Store) -> None:
        """What pop, and a scan of deleted items, return is a copy: restore brings back what was stored."""
        scope = self.scope(session_id="s")
        mine = MemoryMetadata(user_id=scope.user_id)
        await store.add_many(self._nested(scope, 0))
        before = [dump_item(item) async for item in store.scan(metadata=mine)]
        for _ in before:
            popped = await store.pop(metadata=mine)
            assert popped is not None
            _edit(popped)
        async for item in store.scan(metadata=mine, include_deleted=True):
            _edit(item)
        await store.restore(metadata=mine)
        equal([dump_item(item) async for item in store.scan(metadata=mine)], before, "what was restored")

    async def test_changing_what_update_returned_changes_nothing_stored(self, store: Store) -> None:
        """What update and update_many return is a copy of what is stored."""
        scope = self.scope(session_id="s")
        items = self._nested(scope, 0)
        await store.add_many(items)
        first = [await store.update(item.model_copy(update={"version": 1})) for item in items]
        before = [dump_item(item) | {"version": 3} for item in first]
        second = await store.update_many(first)
        for item in [*first, *second]:
            _edit(item)
        found = await store.get_many([item.id for item in items])
        equal([dump_item(item) for item in found], before, "what is stored after the results were changed")

    async def test_calls_of_one_id_are_all_kept(self, store: Store) -> None:
        """Tool calls are a list: equal ids, equal calls and their order stay."""
        calls = [{"id": "c", "name": "b"}, {"id": "c", "name": "a"}, {"id": "b"}, {"id": "c", "name": "b"}]
        await returns(store, AIMemory(content="x", tool_calls=calls, metadata=self.scope()), "calls of one id")

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
        text = "stored " * 40_000  # So much that a store may take its time.
        items = [note(text, scope, number, tags=["x"]) for number in range(3)]
        calls = [store.add(items[0]), store.add_many([items[1]]), store.update(items[2])]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        for item in items:
            item.content = "edited"
            item.model_extra["tags"].append("y")  # type: ignore[index]  # it was given just above
        await asyncio.gather(*tasks)
        found = await store.search(metadata=scope)
        equal([(item.content, item.model_extra) for item in found], [(text, {"tags": ["x"]})] * 3, "the items")
