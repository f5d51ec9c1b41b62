"""What a store refuses before its engine is asked, whichever engine that is."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memoranda import AIMemory, MemoryItem, MemoryMetadata
from memoranda.errors import InputError, UnsupportedError
from memoranda.store import Capability, InMemoryStore
from memoranda.store.backend import MAX_KEY_BYTES
from memoranda.store.records import RECORD_MAKERS, copying_records
from memoranda_testing.model.player import made
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, item, mine, theirs

UNSTORABLE_TEXTS = ("a\0b", "\0", "lone \ud800 surrogate", "\udfff")
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
NUMBERS = (math.nan, math.inf, -math.inf)
NO_JSON = (*NUMBERS, b"bytes", {1, 2}, object(), {1: "a number as key"}, 1j, ENDLESS)
LONG = "x" * (MAX_KEY_BYTES + 1)


class Odd(MemoryItem):
    """An item with a field that can hold what JSON cannot."""

    memory_type: str = "odd"
    value: Any = None


def of_metadata(**fields: Any) -> MemoryItem:
    return item("x", metadata=mine(**fields))


def call_with(argument: Any) -> MemoryItem:
    return AIMemory(content="", tool_calls=[{"id": "c", "args": argument}], metadata=mine())


UNSTORABLE: list[tuple[str, Any]] = [
    *(
        each
        for text in UNSTORABLE_TEXTS
        for each in (
            ("content", lambda text=text: item(text, id="x")),
            *((name, lambda n=name, text=text: item("x", **{n: text})) for name in ("id", "name", "archived_by")),
            ("memory_type", lambda text=text: item("x", memory_type=text)),
            ("user_id", lambda text=text: of_metadata(user_id=text)),
            ("session_id", lambda text=text: of_metadata(session_id=text)),
            ("extra", lambda text=text: of_metadata(extra={"k": ["deep", {"k": text}]})),
            ("extra", lambda text=text: of_metadata(extra={text: 1})),
            ("mood", lambda text=text: item("x", mood=text)),
            ("tool_calls", lambda text=text: call_with(text)),
        )
    ),
    *(("metadata.extra", lambda value=value: of_metadata(extra={"k": [value]})) for value in NO_JSON),
    *(("mood", lambda value=value: item("x", mood={"k": value})) for value in NO_JSON),
    *(("tool_calls", lambda number=number: call_with({"x": number})) for number in NUMBERS),
    *(("value", lambda number=number: Odd(content="x", value=number)) for number in NUMBERS),
    *(
        ("namespace", lambda bad=bad: of_metadata(namespace=bad))
        for bad in ("users", ("a", 1), ("a\0",), ("\ud800",), ("x" * 2000,))
    ),
    *(("id", lambda letter=letter: item("x", id=letter * MAX_KEY_BYTES)) for letter in "ж😀"),
    ("id", lambda: item("x", id=LONG)),
    ("user_id", lambda: of_metadata(user_id=LONG)),
    ("agent_id", lambda: of_metadata(agent_id=LONG)),
    *(("memory_type", lambda kind=kind: MemoryItem(content="", memory_type=kind)) for kind in RECORD_MAKERS),
]


@pytest.mark.parametrize(("field", "build"), UNSTORABLE)
async def test_what_no_store_can_hold_is_refused_by_its_field(field: str, build: Callable[[], MemoryItem]) -> None:
    store = InMemoryStore()
    for write in (store.add, store.update, lambda item: store.add_many([item]), lambda item: store.apply(adds=[item])):
        with pytest.raises(InputError) as raised:
            await write(build())
        assert field in f"{raised.value.field} {raised.value}"
    with pytest.raises(InputError):
        await store.add_many([item("a"), build()])
    assert await store.count() == 0


async def test_only_copies_bring_records_and_no_stranger_does() -> None:
    store = InMemoryStore()
    for kind in RECORD_MAKERS:
        record = MemoryItem(content="", memory_type=kind, metadata=mine())
        with copying_records(store):
            await store.add(record)
        stranger = store.scoped(user_id="ada", trust="external")
        with copying_records(stranger), pytest.raises(InputError):
            await stranger.add(record.model_copy(update={"id": uuid.uuid4().hex}))


def pages(store: Calls) -> Iterator[Call]:
    yield from (store.search(limit=limit) for limit in ("3", 2.5, None, True, -1))
    yield from (store.search(order=order) for order in ("newest", ""))
    for offset in (-1, 1.5, "2", True):
        yield from (store.search(offset=offset), store.search_ranked(query="x", offset=offset))
    for name in ("rounds", "tokens", "limit"):
        yield from (store.window(**{name: bound}) for bound in (-1, 1.5, "2", True))
    yield store.search_ranked(query="x", limit=-1, mode="text")


def owners(store: Calls) -> Iterator[Call]:
    yield from (store.owners("content"), store.owners(""), store.owners("user_id", depth=1))
    yield from (store.owners("namespace", depth=0), store.owners("namespace", suffix="p"))
    yield from (store.owners(limit=-1), store.owners(offset=True), store.owners(counts=0))


def queries(store: Calls) -> Iterator[Call]:
    yield from (store.search_ranked(query=query, mode="text") for query in ("", "a\0", "\ud800"))
    yield from (store.search(query=query, mode=mode) for query in ("a\0", "\ud800") for mode in ("substring", "text"))
    yield store.search(query="a", mode="text", current="no")
    # Python refuses to write out an integer of thousands of digits.
    yield from (store.search(query="x", mode=mode) for mode in ("magic", -(10**5000), 3, ["text"]))
    for score in (-0.1, 1.5):
        yield from (store.search(query="x", mode="text", min_score=score), store.recall("x", min_score=score))
    yield store.search(query="x", mode="substring", min_score=0.5)


def filters(store: Calls) -> Iterator[Call]:
    bad = [MemoryMetadata(extra={"k": value}) for value in (*UNSTORABLE_TEXTS, math.nan, b"bytes")]
    for wanted in (*bad, MemoryMetadata(user_id="\0"), MemoryMetadata(session_id="a\0b")):
        yield from (call(metadata=wanted) for call in (store.search, store.count, store.clear, store.scan))
        yield from (store.search_ranked(query="x", metadata=wanted), store.get("x", metadata=wanted))
        yield from (call(item("x"), within=wanted) for call in (store.add, store.update))
        yield store.add_many([item("x")], within=wanted)
    yield store.search(metadata={"user_id": "x"})
    yield from (store.search(memory_type=text) for text in UNSTORABLE_TEXTS)
    yield from (store.search(status=status) for status in ("done", 3, ["draft"]))
    yield from (store.search(since=since) for since in ("yesterday", 5, ""))
    yield from (store.clear(metadata=MemoryMetadata()), store.purge(metadata=MemoryMetadata()), store.purge())


def conditions(store: Calls) -> Iterator[Call]:
    bad: list[Any] = [
        *("score", ["score"], {"k": {"$near": 1}}, {"k": {"$gt": None}}, {"k": {"$lt": [1]}}, {"k": {"$in": 3}}),
        *({"k": {"$exists": 1}}, {"k": {"$eq": 1, "x": 2}}, {1: 2}, {"k": float("nan")}, {"k": {"$in": "abc"}}),
        *({"created_at": "soon"}, {"k": {"$gt": True}}, {f"k{number}": 1 for number in range(65)}),
    ]
    yield from (call(where=where) for where in bad for call in (store.search, store.count))


def batches(store: Calls) -> Iterator[Call]:
    for value in ({"content": "x"}, "x", None, 3):
        yield from (store.add(value), store.add_many([value]))
    for values in (5, None, "x", {"content": "x"}, item("x")):
        yield from (store.add_many(values), store.update_many(values))
    yield from map(store.get, (*UNSTORABLE_TEXTS, None, 3))
    yield from (store.get_many(ids) for ids in ("abc", [1]))
    yield from (store.add_many(batch, deleted=["stored"]) for batch in ([item("x")], []))
    yield store.append([], after=None)
    yield store.append([item("x"), item("y", metadata=mine(session_id="t"))], after=None)


def lifetimes(store: Calls) -> Iterator[Call]:
    for ttl in (0, -1, math.nan, "3", True):
        yield from (store.add(item("x"), ttl=ttl), store.add_many([item("x")], ttl=ttl), store.touch(["x"], ttl=ttl))
    yield store.add(item("x"), ttl=math.inf)


def other_scopes(store: Calls) -> Iterator[Call]:
    handle, other = store.scoped(user_id="ada"), theirs()
    yield from (call(metadata=other) for call in (handle.search, handle.count, handle.clear, handle.scan))
    yield from (handle.get("tea", metadata=other), handle.search_ranked(query="tea", metadata=other, mode="text"))


@pytest.mark.parametrize(
    "program",
    [pages, owners, queries, filters, conditions, batches, lifetimes, other_scopes],
    ids=lambda each: each.__name__,
)
async def test_what_makes_no_sense_is_refused(program: Callable[[Calls], Iterator[Call]]) -> None:
    store = InMemoryStore()
    for call in program(Calls()):
        with pytest.raises(InputError):
            await made(store, call)
    assert await store.count() == 0


async def test_what_a_store_does_not_declare_is_refused() -> None:
    class Plain(InMemoryStore):
        capabilities = InMemoryStore.capabilities - {Capability.TTL, Capability.FORK, Capability.ADD_DELETED}

    store, calls = Plain(), Calls()
    for call in (
        *(calls.search(query="x", mode="semantic"), calls.search_ranked(query="x", mode="hybrid")),
        *(calls.add(item("x"), ttl=5.0), calls.add_many([item("y")], ttl=5.0), calls.fork("s", at="x")),
        calls.add_many([item("x")], deleted=["x"]),
    ):
        with pytest.raises(UnsupportedError):
            await made(store, call)
    assert await store.count() == 0


@pytest.mark.parametrize("method", ["search", "count", "window", "clear", "purge", "pop"])
@pytest.mark.parametrize("scoped", [False, True])
async def test_a_filter_that_is_no_metadata_is_refused_by_every_method(method: str, scoped: bool) -> None:
    store = InMemoryStore()
    given: Any = {"user_id": "ada"}
    with pytest.raises(InputError, match="metadata must be a MemoryMetadata, not dict"):
        await getattr(store.scoped(user_id="ada") if scoped else store, method)(metadata=given)
