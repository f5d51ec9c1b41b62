"""What no store can hold is refused with the name of the field, and nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from memoranda.errors import InputError
from memoranda.items import AIMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store, copy_item
from memoranda.store.backend import MAX_KEY_BYTES
from memoranda.store.records import RECORD_MAKERS, copying_records
from memoranda_testing.case import note
from memoranda_testing.expect import equal, raises, that
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, HistoryCases, item, refused

UNSTORABLE_TEXTS = ("a\0b", "\0", "lone \ud800 surrogate", "\udfff")


class _OddItem(MemoryItem):
    """An item with a field that can hold what JSON cannot."""

    memory_type: str = "odd"
    value: Any = None


def _calling(call: dict[str, Any], metadata: MemoryMetadata) -> MemoryItem:
    """Return an AI item that makes this call."""
    return AIMemory(content="", tool_calls=[call], metadata=metadata)


class InputCases(HistoryCases):
    """Items that cannot be stored."""

    @staticmethod
    def _owned_by(**fields: Any) -> MemoryItem:
        """Return an item with this metadata."""
        return note("x", MemoryMetadata(**fields))

    async def _refused(self, store: Store, build: Callable[[], MemoryItem], field: str, what: str) -> None:
        """Check every way of writing the item; some items are refused as soon as they are made."""

        async def add() -> None:
            await store.add(build())

        async def add_many() -> None:
            await store.add_many([build()])

        async def update() -> None:
            await store.update(build())

        for write in (add, add_many, update):
            with raises(InputError, f"{write.__name__} of {what}") as raised:
                await write()
            that(
                str(raised.error.field or "").startswith(field) or field in str(raised.error),
                f"The error about {what} names {raised.error.field!r} and not {field!r}: {raised.error}",
            )

    async def test_records_are_refused_from_all_but_their_makers(self, store: Store) -> None:
        """What a record says is believed, so nobody adds one by hand; copies of other stores have them."""
        user = self.user()
        for kind in RECORD_MAKERS:
            record = MemoryItem(content="", memory_type=kind, metadata=MemoryMetadata(user_id=user))
            await self._refused(store, partial(copy_item, record), "memory_type", f"a record of type {kind!r}")
            with copying_records(store):
                await store.add(record)
            stranger = store.scoped(user_id=user, trust="external")
            with copying_records(stranger), raises(InputError, f"a stranger's copy of {kind!r}"):
                await stranger.add(record.model_copy(update={"id": uuid.uuid4().hex}))

    async def test_nul_and_lone_surrogates_are_refused_in_every_text(self, store: Store) -> None:
        """Content, id, type, name, scope fields, extra keys and values, further fields: each is named."""
        scope = self.scope()
        user = scope.user_id
        for text in UNSTORABLE_TEXTS:
            for field, build in (
                ("content", partial(note, text, scope)),
                ("id", partial(note, "x", scope, id=text)),
                ("memory_type", partial(note, "x", scope, memory_type=text)),
                ("name", partial(note, "x", scope, name=text)),
                ("archived_by", partial(note, "x", scope, archived_by=text)),
                ("user_id", partial(self._owned_by, user_id=text)),
                ("session_id", partial(self._owned_by, user_id=user, session_id=text)),
                ("extra", partial(self._owned_by, user_id=user, extra={"k": ["deep", {"k": text}]})),
                ("extra", partial(self._owned_by, user_id=user, extra={text: 1})),
                ("mood", partial(note, "x", scope, mood=text)),
                ("tool_calls", partial(_calling, {"id": "c", "args": text}, scope)),
            ):
                await self._refused(store, build, field, f"{text!r} in {field}")
        equal(await store.count(metadata=MemoryMetadata(user_id=user)), 0, "count after refusals")

    async def test_ids_are_as_long_as_every_index_can_hold(self, store: Store) -> None:
        """The longest ids are kept and found, in any script; one byte more is an InputError that names the field."""
        for letter in ("x", "ж", "😀"):
            longest = uuid.uuid4().hex
            longest += letter * ((MAX_KEY_BYTES - len(longest)) // len(letter.encode()))
            scope = self.scope(session_id=longest, task_id=longest, agent_id=longest)
            owner = MemoryMetadata(
                **{**scope.model_dump(), "user_id": self.owned(MemoryMetadata(user_id=longest)).user_id}
            )
            await store.add(note("kept", owner, id=longest))
            found = await store.search(metadata=owner)
            equal([item.id for item in found], [longest], "items of the longest ids")
            await store.scoped(user_id=longest).clear()
            if Capability.PURGE in store.capabilities:
                await store.scoped(user_id=longest).purge()
            for field, build in (
                ("id", partial(note, "x", self.scope(), id=longest + "x")),
                ("user_id", partial(self._owned_by, user_id=longest + "x")),
                ("agent_id", partial(self._owned_by, user_id=self.user(), agent_id=longest + "x")),
            ):
                await self._refused(store, build, field, f"an {field} of too many bytes")

    async def test_what_json_lacks_is_refused(self, store: Store) -> None:
        """NaN, the infinities, bytes, sets, objects, keys that are no text, and a list within itself, anywhere."""
        scope, endless = self.scope(), list[Any]()
        endless.append(endless)
        numbers = (float("nan"), float("inf"), float("-inf"))
        for value in (*numbers, b"bytes", {1, 2}, object(), {1: "a number as key"}, 1j, endless):
            await self._refused(
                store,
                partial(self._owned_by, user_id=scope.user_id, extra={"k": [value]}),
                "metadata.extra",
                f"a {type(value).__name__} in extra",
            )
            in_a_field = partial(note, "x", scope, mood={"k": value})
            await self._refused(store, in_a_field, "mood", f"a {type(value).__name__} in a field")
        for number in numbers:
            in_a_call = partial(_calling, {"id": "c", "args": {"x": number}}, scope)
            await self._refused(store, in_a_call, "tool_calls", f"{number} in a call")
            in_a_class = partial(_OddItem, content="x", metadata=scope, value=number)
            await self._refused(store, in_a_class, "value", f"{number} in a field of a class")
        equal(await store.count(metadata=scope), 0, "count after refusals")

    async def test_bad_times_are_refused(self, store: Store) -> None:
        """A time that cannot be read never becomes an item, nor can it be assigned to one."""
        del store  # Items are refused before any store sees them.
        scope = self.scope()
        for text in ("yesterday", "", "2024-13-01", "2024-02-30T00:00:00", "12:00", "9999-12-31T23:59:59-01:00"):
            with raises(ValueError, f"an item of the time {text!r}"):
                note("x", scope, created_at=text)
            item = note("x", scope)
            with raises(ValueError, f"assigning the time {text!r}"):
                item.updated_at = text

    @refused
    def test_what_is_no_item_is_refused(self, store: Calls) -> Iterator[Call]:
        """Dicts, texts and None are InputErrors, and so is what is no list of items."""
        for value in ({"content": "x"}, "x", None, 3):
            yield from (store.add(value), store.add_many([value]))
        for values in (5, None, "x", {"content": "x"}, item("x")):
            yield from (store.add_many(values), store.update_many(values))

    @refused
    def test_bad_ids_to_read_are_refused(self, store: Calls) -> Iterator[Call]:
        """get of an impossible id is an InputError, not a driver's error."""
        yield from map(store.get, (*UNSTORABLE_TEXTS, None, 3))

    @refused
    def test_bad_filters_are_refused(self, store: Calls) -> Iterator[Call]:
        """NUL, surrogates and what JSON lacks in a filter are InputErrors, wherever a filter is taken."""
        filters = [MemoryMetadata(extra={"k": value}) for value in (*UNSTORABLE_TEXTS, float("nan"), b"bytes")]
        filters += [MemoryMetadata(user_id="\0"), MemoryMetadata(session_id="a\0b")]
        for wanted in filters:
            yield from (call(metadata=wanted) for call in (store.search, store.count, store.clear, store.scan))
            yield from (store.search_ranked(query="x", metadata=wanted), store.get("x", metadata=wanted))
            yield from (call(item("x"), within=wanted) for call in (store.add, store.update))
            yield store.add_many([item("x")], within=wanted)
        yield from (store.search(memory_type=text) for text in UNSTORABLE_TEXTS)
