"""Fields that a store has never seen come back: of types that are not installed, and of classes that are registered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from memoranda.errors import InputError
from memoranda.items import HumanMemory, MemoryItem, Payload, PayloadChanges, ToolMemory
from memoranda.store import Capability, Store, dump_item
from memoranda_testing.case import Cases, made, moment
from memoranda_testing.cases.round_trips import AWKWARD_JSON, returns
from memoranda_testing.expect import equal, raises, same_item


class ItemExample(MemoryItem):
    """An item type that no store knows."""

    memory_type: str = "conformance-example"
    weight: float = 1.5
    tags: list[str] = []  # noqa: RUF012  # pydantic copies defaults


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


class ItemFieldCases(Cases):
    """Whatever fields an item has, none is lost."""

    async def test_a_payload_comes_back_to_the_byte(self, store: Store) -> None:
        """A provider's item is text to a store, whatever it holds, and comes back as it was given."""
        for what, payload in PAYLOADS.items():
            item = HumanMemory(content="hi", payload=payload, payload_format="example", metadata=self.scope())
            await returns(store, item, f"an item whose payload has {what}")

    async def test_payloads_are_read_without_their_items(self, store: Store) -> None:
        """Of what a search shows in the scope, in the order of adding, and with a limit the newest."""
        mine, theirs = self.scope(), self.scope()
        kinds = (HumanMemory, MemoryItem, HumanMemory)
        items = [
            kind(
                content=str(number),
                payload=[number],
                payload_format="example",
                metadata=mine,
                created_at=moment(9 - number),
            )
            for number, kind in enumerate(kinds)
        ]
        bare = HumanMemory(content="none", metadata=mine)
        other = HumanMemory(content="other", payload="[]", metadata=theirs)
        archived = HumanMemory(content="archived", archived_by="summary", metadata=mine)
        await store.add_many([*items, bare, other, archived])
        wanted = [Payload(item.id, item.content, f"[{item.content}]", "example") for item in items]
        wanted.append(Payload(bare.id, "none", None, None))
        equal(await store.payloads(metadata=mine), wanted, "the payloads of a scope")
        handle = store.scoped(user_id=str(mine.user_id))
        equal(await handle.payloads(), wanted, "the payloads of a handle")
        with raises(InputError, "asking a handle for another's payloads"):
            await handle.payloads(metadata=theirs)
        equal(await handle.payloads(limit=2), wanted[-2:], "the newest two")
        equal(await handle.payloads(limit=0), [], "none of them")
        equal(await handle.payloads(memory_type="item"), [wanted[1]], "those of a type")

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

    async def test_what_belongs_together_still_does(self, store: Store) -> None:
        """The group of an item and the calls that a result answers come back."""
        for group in ("g", "", "группа"):
            item = ToolMemory(
                content="",
                group=group,
                group_size=2,
                tool_call_id="a",
                also_answers=["b", "", "a"],
                metadata=self.scope(),
            )
            await returns(store, item, "a result of several calls in a group")

    async def test_unknown_type_and_fields_round_trip(self, store: Store) -> None:
        """A type that is not installed comes back as MemoryItem with every field it had."""
        item = made(
            MemoryItem, content="?", memory_type="not-installed", metadata=self.scope(), mood=AWKWARD_JSON, n=[1, 1.0]
        )
        await returns(store, item, "an item of an unknown type")

    async def test_unknown_fields_of_known_types_round_trip(self, store: Store) -> None:
        """A later release's field on a known type is kept."""
        item = made(HumanMemory, content="hi", metadata=self.scope(), sentiment={"joy": 0.5}, seen=None)
        await returns(store, item, "a human item with further fields")

    async def test_a_further_field_of_every_kind_round_trips(self, store: Store) -> None:
        """A field that no store knows is kept, alone and with others, null and empty values too."""
        for name, value in EVERY_KIND.items():
            item = made(MemoryItem, content="?", memory_type="unheard-of", metadata=self.scope(), **{name: value})
            await returns(store, item, f"an item with the field {name!r} alone")
        item = made(MemoryItem, content="?", memory_type="unheard-of", metadata=self.scope(), **EVERY_KIND)
        await returns(store, item, "an item with fields of every kind")

    async def test_unregistered_class_loses_nothing(self, store: Store) -> None:
        """An item of a class that the store does not know is read as MemoryItem; writing that back loses nothing."""
        item = ItemExample(content="example", weight=2.5, tags=["a", "b"], metadata=self.scope())
        await store.add(item)
        found = await store.get(item.id)
        as_plain = MemoryItem(**dump_item(item))
        same_item(found, as_plain, "get of an unregistered class")
        assert found is not None
        await store.add(found)
        same_item(await store.get(item.id), as_plain, "get after writing back", version=2)

    async def test_a_registered_class_is_read_as_itself(self, store: Store) -> None:
        """An item whose class is among the store's item types comes back as that class."""
        item = ItemExample(content="example", weight=2.5, tags=["a"], metadata=self.scope())
        await self._returns_registered(store, item, "an item of a registered class")

    async def _returns_registered(self, store: Store, item: MemoryItem, what: str) -> None:
        before = store.item_types
        store.item_types = {**before, item.memory_type: type(item)}
        try:
            await returns(store, item, what)
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
