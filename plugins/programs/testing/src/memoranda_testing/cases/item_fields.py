"""Fields that a store has never seen come back: of types that are not installed, and of classes that are registered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from memoranda.items import HumanMemory, MemoryItem, Payload, PayloadChanges
from memoranda.store import Capability, Store
from memoranda_testing.case import made
from memoranda_testing.cases.round_trips import AWKWARD_JSON, kept
from memoranda_testing.expect import equal, same_item
from memoranda_testing.programs import Calls, HistoryCases, Program, mine, played


class Colour(StrEnum):
    """A value of an example's field."""

    RED = "red"
    BLUE = "blue"


class Spot(BaseModel):
    """A value of an example's field."""

    x: float
    of: Colour = Colour.RED


class DetailedExample(MemoryItem):
    """An item type with fields of every kind, some of them without a default."""

    memory_type: str = "conformance-details"
    place: str
    spots: list[Spot]
    due: datetime | None = None
    colour: Colour = Colour.BLUE
    note: str | None = "a default that is not None"
    share: float = 0.5
    open: bool = True
    by_key: dict[str, list[int]] = Field(default_factory=lambda: {"a": [1]})


EVERY_KIND: dict[str, Any] = {
    "nothing": None,
    "yes": True,
    "no": False,
    "nought": 0,
    "whole": 7,
    "part": 0.5,
    "empty_text": "",
    "text": "ключ",
    "empty_list": [],
    "list": [None, [], {"a": [1.0]}],
    "empty_object": {},
    "object": {"": {"a": [False]}},
    "deleted": 1,
    "extra_json": "{}",
    "tool_calls": [{"no id": 1}],
}
"""Fields of an item that no store has seen, those included that some engine has a use of its own for."""


DEPTH = 5_000
"""Levels of nesting that no reader or writer of JSON gets through without a stack of its own."""

PAYLOADS: dict[str, str] = {
    "spaces and an order of keys": '{ "b" : 1.0,\t"a":\n[1e2, -0] }',
    "escapes": '"\\u0000 \\ud800 \\u00e9 \\/ \\\\"',
    "what is not in JSON": "[NaN, Infinity, -Infinity]",
    "a key twice": '{"a":1,"a":2}',
    "more than the nesting of a field": "[" * DEPTH + "]" * DEPTH,
    "no JSON": "'{",
    "nothing": "",
}
"""Texts that a store would spoil by reading them."""


class ItemFieldCases(HistoryCases):
    """Whatever fields an item has, none is lost."""

    @played
    def test_a_payload_comes_back_to_the_byte(self, store: Calls) -> Program:
        """A provider's item is text to a store, whatever it holds, and comes back as it was given."""
        for what, payload in PAYLOADS.items():
            yield from kept(
                store, HumanMemory(id=what, content="hi", payload=payload, payload_format="x", metadata=mine())
            )

    async def test_payload_changes_lead_from_each_state_to_the_next(self, store: Store) -> None:
        """Whoever applies them has what payloads() returns, whatever was written in between, and by whom."""
        mine, theirs = self.scope(), self.scope()
        ids = [f"{mine.user_id}-{number}" for number in range(6)]

        def item(number: int, text: str) -> HumanMemory:
            payload = json.dumps(text)
            return HumanMemory(id=ids[number], content=text, payload=payload, payload_format="x", metadata=mine)

        async def archive() -> None:
            await store.add(item(2, "archived").model_copy(update={"archived_by": "summary"}))

        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "nothing": lambda: asyncio.sleep(0),
            "adding": lambda: store.add_many([item(number, "first") for number in range(4)]),
            "adding another's": lambda: store.add(HumanMemory(content="other", payload="[]", metadata=theirs)),
            "replacing": lambda: store.add(item(1, "second")),
            "archiving": archive,
            "adding one": lambda: store.add(item(4, "first")),
        }
        if Capability.DELETE in store.capabilities:
            steps["deleting"] = lambda: store.delete(ids[0], metadata=mine)
            steps["adding after that"] = lambda: store.add(item(5, "first"))
            steps["restoring"] = lambda: store.restore(ids[0], metadata=mine)
        if Capability.PURGE in store.capabilities:
            steps["purging"] = lambda: store.purge(ids[3], metadata=mine)
            steps["adding what was purged"] = lambda: store.add(item(3, "again"))
        steps["clearing another's"] = lambda: store.clear(metadata=theirs)
        steps["clearing"] = lambda: store.clear(metadata=mine)
        followed: dict[int, Payload] = {}
        seen: PayloadChanges | None = None
        for what, step in steps.items():
            await step()
            for _ in range(2):
                seen = await store.payload_changes(seen, metadata=mine)
                followed = {} if seen.gone is None else followed
                for number in seen.gone or ():
                    followed.pop(number, None)
                followed |= seen.rows
                wanted = await store.payloads(metadata=mine)
                equal(sorted(followed.values()), sorted(wanted), f"the payloads that are followed, after {what}")

    @played
    def test_unknown_type_and_fields_round_trip(self, store: Calls) -> Program:
        """A type that is not installed comes back as MemoryItem with every field; known types keep unknown fields."""
        yield from kept(
            store,
            made(MemoryItem, content="?", memory_type="not-installed", metadata=mine(), mood=AWKWARD_JSON, n=[1, 1.0]),
            made(HumanMemory, content="hi", metadata=mine(), sentiment={"joy": 0.5}, seen=None),
        )

    @played
    def test_a_further_field_of_every_kind_round_trips(self, store: Calls) -> Program:
        """A field that no store knows is kept, alone and with others, null and empty values too."""
        for fields in (*({name: value} for name, value in EVERY_KIND.items()), EVERY_KIND):
            yield from kept(store, made(MemoryItem, content="?", memory_type="unheard-of", metadata=mine(), **fields))

    async def _returns_registered(self, store: Store, item: MemoryItem, what: str) -> None:
        """Check an item of a class that the store knows, by every way of reading it."""
        before, scope = store.item_types, item.metadata
        store.item_types = {**before, item.memory_type: type(item)}
        try:
            await store.add(item)
            found = [await store.get(item.id), *await store.search(metadata=scope)]
            found += [each async for each in store.scan(metadata=scope)]
            equal(len(found), 3, f"how often {what} is found by get, search and scan")
            for each in found:
                same_item(each, item, what, version=1)
            equal(await store.payloads(metadata=scope), [Payload.of(item)], f"payloads for {what}")
        finally:
            store.item_types = before

    async def test_every_field_of_a_registered_class_round_trips(self, store: Store) -> None:
        """Fields of a class's own come back with their types: defaults, null for what has another default, models."""
        item = DetailedExample(content="defaults", place="Oslo", spots=[], metadata=self.scope())
        await self._returns_registered(store, item, "an item of a registered class with defaults")
        item = DetailedExample(
            content="details",
            name="Ada",
            place="",
            spots=[Spot(x=1.5), Spot(x=-0.0, of=Colour.BLUE)],
            due=datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
            colour=Colour.RED,
            note=None,
            share=0.0,
            open=False,
            by_key={},
            metadata=self.scope(),
            **made(MemoryItem, content="", mood=AWKWARD_JSON).model_extra or {},
        )
        await self._returns_registered(store, item, "an item of a registered class with details")
