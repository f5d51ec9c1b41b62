"""Order, time, places, values, lifetimes, batches and turns: the answers of the in-memory store, on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.errors import IdConflictError, MemoryError
from memoranda.store import InMemoryStore
from memoranda.store.backend import ITEM_FIELDS, OPERATORS
from memoranda_postgres import PostgresMemoryStore

_eras = itertools.count(4_000_000_000.0, 10_000)
"""When each history begins: later than now and all before it, as expiry is judged by the latest time that was seen."""

RANDOMLY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
LAYOUTS = [0, pytest.param(3, marks=pytest.mark.rare("partitions"))]


@pytest_asyncio.fixture(params=LAYOUTS)
async def store(shared_url: str, schema: str, request: pytest.FixtureRequest) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(shared_url, schema=schema, partitions=request.param) as store:
        yield store


async def emptied(store: PostgresMemoryStore) -> PostgresMemoryStore:
    await store.clear()
    await store.purge(deleted_only=True)
    return store


async def outcome(call: Any) -> Any:
    """Return what a call returns, or the kind of error that it raises."""
    try:
        return await call
    except MemoryError as error:
        return type(error).__name__


async def listed(listing: Any) -> list[Any]:
    return [each async for each in listing]


KEYS = ["k", "n", "a.b", "$x", "'", '"', "name", "user_id"]
VALUES = [
    None, True, False, 0, 1, 1.0, -1, 2, 1.5, -0.0, 10**23, 1e23, 2**53 + 1, float(2**53), 1e-7, 1.7e308, 10**400,
    "", "1", "a", "B", "b", "ä", "z", "Z", "\uffff", "\U0001f989", "true", "null", '"', "'; --", "{}",
    [], [1], [1.0, "a"], {}, {"b": 1, "a": [None]}, {"a": [None], "b": 1.0},
]  # fmt: skip
values = st.sampled_from(VALUES)
places = st.lists(st.sampled_from(["a", "ab", "b", "/", "~", "~1", "ä"]), max_size=3).map(tuple)
extras = st.dictionaries(st.sampled_from(KEYS), values, max_size=3)
scopes = st.builds(
    MemoryMetadata,
    user_id=st.sampled_from([None, "", "ada", "Bob"]),
    session_id=st.sampled_from([None, "s", "t"]),
    task_id=st.sampled_from([None, "t"]),
    namespace=places,
    extra=extras,
)


def item_of(kind: type[MemoryItem], **fields: Any) -> MemoryItem:
    if kind is not ToolMemory:
        for name in ("tool_name", "tool_call_id"):
            fields.pop(name)
    return kind(**fields)


items = st.builds(
    item_of,
    kind=st.sampled_from([HumanMemory, AIMemory, ToolMemory]),
    id=st.sampled_from([f"id-{number}" for number in range(10)]),
    content=st.sampled_from(["tea", "Tee", "Ähre", "", "straße"]),
    metadata=scopes,
    created_at=st.sampled_from([f"2024-01-01T00:00:0{second}" for second in range(3)]),
    updated_at=st.sampled_from([f"2024-01-02T00:00:0{second}" for second in range(3)]),
    name=st.sampled_from([None, "", "Ana", "1"]),
    archived_by=st.sampled_from([None, None, "summary"]),
    tool_name=st.sampled_from(["", "lookup"]),
    tool_call_id=st.sampled_from(["", "call"]),
)


@st.composite
def operators(draw: st.DrawFn, key: str) -> Any:
    operator = draw(st.sampled_from(list(OPERATORS)))
    operand = (
        st.sampled_from(["2024-01-01T00:00:00", "2024-01-01T00:00:01", "2024-01-02T00:00:01"])
        if key.endswith("_at")
        else values
    )
    if operator == "$exists":
        return {operator: draw(st.booleans())}
    if operator == "$in":
        return {operator: draw(st.lists(st.one_of(operand, st.none()), max_size=3))}
    if operator in ("$eq", "$ne"):
        return {operator: draw(st.one_of(operand, places.map(list) if key == "namespace" else st.none()))}
    return {operator: draw(operand.filter(lambda value: type(value) in (int, float, str)))}


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    keys = draw(st.lists(st.sampled_from([*KEYS, *ITEM_FIELDS, "extra.name"]), min_size=1, max_size=2, unique=True))
    return {key: draw(operators(key)) for key in keys}


@RANDOMLY
@given(data=st.data())
async def test_conditions_on_values_mean_what_they_mean_in_memory(
    store: PostgresMemoryStore, data: st.DataObject
) -> None:
    await emptied(store)
    reference = InMemoryStore()
    for item in data.draw(st.lists(items, min_size=1, max_size=8), label="added"):
        assert await outcome(store.add(item)) == await outcome(reference.add(item))
    for where in data.draw(st.lists(conditions(), min_size=1, max_size=12), label="asked"):
        ours = await outcome(store.search(where=where, limit=20))
        assert ours == await outcome(reference.search(where=where, limit=20)), where


def page_of(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "metadata": draw(st.one_of(st.none(), scopes)),
        "limit": draw(st.integers(0, 5)),
        "offset": draw(st.integers(0, 3)),
        "order": draw(st.sampled_from([None, "created", "added", "updated"])),
        "since": draw(st.sampled_from([None, "2024-01-01T00:00:01"])),
        "until": draw(st.sampled_from([None, "2024-01-01T00:00:02"])),
    }


pages = st.composite(page_of)()


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """A call of a store that changes it, or moves its clock."""
    ids = [f"id-{number}" for number in range(10)]
    within = draw(st.one_of(st.none(), scopes))
    ttl = draw(st.sampled_from([None, None, 5.0, 20.0]))
    return draw(
        st.one_of(
            st.tuples(
                st.just("add"),
                st.tuples(items),
                st.just({"within": within, "ttl": ttl, "keep_created": draw(st.booleans())}),
            ),
            st.tuples(
                st.just("apply"),
                st.just(()),
                st.fixed_dictionaries(
                    {
                        "adds": st.lists(items, max_size=4),
                        "deletes": st.lists(st.sampled_from(ids), max_size=3),
                        "purge": st.booleans(),
                        "keep_created": st.booleans(),
                        "within": st.just(within),
                    }
                ),
            ),
            st.tuples(
                st.just("append"),
                st.tuples(st.lists(items, min_size=1, max_size=2)),
                st.fixed_dictionaries({"after": st.sampled_from([None, *ids])}),
            ),
            st.tuples(st.just("touch"), st.tuples(st.lists(st.sampled_from(ids), max_size=4)),
                      st.just({"ttl": draw(st.sampled_from([None, 3.0, math.inf])), "metadata": within})),
            st.tuples(st.just("pop"), st.just(()), st.just({"metadata": within, "purge": draw(st.booleans())})),
            st.tuples(st.just("delete"), st.tuples(st.sampled_from(ids)), st.just({})),
            st.tuples(st.just("restore"), st.tuples(st.sampled_from(ids)), st.just({})),
            st.tuples(st.just("clock"), st.tuples(st.sampled_from([-7.0, 4.0, 11.0])), st.just({})),
        )
    )  # fmt: skip


@pytest.mark.rare
@RANDOMLY
@given(history=st.lists(steps(), max_size=14), asked=st.lists(pages, min_size=1, max_size=4))
async def test_random_histories_of_every_write_give_the_answers_of_the_in_memory_store(
    store: PostgresMemoryStore, history: list[Any], asked: list[dict[str, Any]]
) -> None:
    await emptied(store)
    reference = InMemoryStore()
    now = [next(_eras)]
    store.clock = reference.clock = lambda: now[0]
    # From the first mortal item on a store looks at the clock with every call.
    mortal = HumanMemory(id="mortal", content="x", created_at="2024-01-01")
    await asyncio.gather(store.add(mortal, ttl=1e6), reference.add(mortal, ttl=1e6))
    for name, arguments, options in history:
        if name == "clock":
            now[0] += arguments[0]
            # Otherwise it depends on the moment whether an id is still held by what has expired.
            await asyncio.gather(store.sweep(), reference.sweep())
            continue
        ours, theirs = [await outcome(getattr(each, name)(*arguments, **options)) for each in (store, reference)]
        assert ours == theirs, (name, arguments, options)
    for page in asked:
        assert await store.search(**page) == await reference.search(**page), page
        metadata = page["metadata"]
        assert await listed(store.scan(metadata=metadata, order=page["order"], include_deleted=True)) == await listed(
            reference.scan(metadata=metadata, order=page["order"], include_deleted=True)
        )
        for by in ("user_id", "session_id", "namespace"):
            assert await listed(store.owners(by, within=metadata)) == await listed(
                reference.owners(by, within=metadata)
            )
        assert await store.window(metadata=metadata, limit=3) == await reference.window(metadata=metadata, limit=3)
    ids = [f"id-{number}" for number in range(9, -1, -1)]
    assert await store.get_many(ids) == await reference.get_many(ids)


SESSION = MemoryMetadata(user_id="ada", session_id="s")


def said(name: str, metadata: MemoryMetadata = SESSION, **fields: Any) -> HumanMemory:
    return HumanMemory(id=name, content=name, metadata=metadata, **fields)


async def test_of_turns_that_answer_the_same_message_one_is_heard(store: PostgresMemoryStore) -> None:
    await store.add(said("question"))
    turns = [[said(f"{runner}-{number}") for number in range(4)] for runner in range(8)]
    results = await asyncio.gather(*(store.append(turn, after="question") for turn in turns), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["TurnConflictError"] * 7 + ["str"]
    assert await store.count() == 5


async def test_turns_of_different_conversations_do_not_wait_for_each_other(store: PostgresMemoryStore) -> None:
    scopes = [SESSION, MemoryMetadata(session_id="s"), MemoryMetadata(user_id="ada"), MemoryMetadata()]
    heads = await asyncio.gather(
        *(store.append([said(str(number), scope)], after=None) for number, scope in enumerate(scopes))
    )
    assert heads == ["0", "1", "2", "3"]


async def test_each_item_is_popped_once_however_many_pop(store: PostgresMemoryStore) -> None:
    await store.add_many([said(f"{number:02d}") for number in range(30)])
    popped = await asyncio.gather(*(store.pop(metadata=SESSION, purge=number % 2 == 0) for number in range(40)))
    names = [item.id for item in popped if item is not None]
    assert sorted(names) == [f"{number:02d}" for number in range(30)]
    assert await store.count() == 0


async def test_a_clock_that_was_wrong_in_one_process_decides_nothing_in_the_next(shared_url: str, schema: str) -> None:
    now = [1_000.0]
    async with PostgresMemoryStore(shared_url, schema=schema) as store:
        store.clock = lambda: now[0]
        await store.add(said("an hour"), ttl=3600)
        now[0] += 10 * 365 * 86_400
        assert await store.get("an hour") is None
        now[0] = 1_000.0
    async with PostgresMemoryStore(shared_url, schema=schema) as store:
        store.clock = lambda: now[0]
        await store.add(said("a minute"), ttl=60)
        assert {item.id for item in await store.search()} == {"an hour", "a minute"}
        now[0] += 60
        assert {item.id for item in await store.search()} == {"an hour"}


def _overwriting(item: HumanMemory) -> dict[str, Callable[[PostgresMemoryStore], Awaitable[object]]]:
    """Return every way of writing an item, by its name."""
    return {
        "add": lambda store: store.add(item),
        "add of a batch": lambda store: store.add_many([item, *(said(f"beside {n}") for n in range(3))]),
        "add of a large batch": lambda store: store.add_many([item, *(said(f"beside {n}") for n in range(700))]),
        "update": lambda store: store.update(item),
        "apply": lambda store: store.apply(adds=[item], deletes=["none"], keep_created=True),
        "append": lambda store: store.append([item], after=None),
    }


@pytest.mark.parametrize("way", list(_overwriting(HumanMemory(content=""))))
@pytest.mark.parametrize("user", ["ada", "ben"])
@pytest.mark.parametrize("partitions", LAYOUTS)
async def test_an_expired_id_of_another_process_is_free(
    shared_url: str, schema: str, way: str, user: str, partitions: int
) -> None:
    now = [1_000.0]
    async with (
        PostgresMemoryStore(shared_url, schema=schema, partitions=partitions) as one,
        PostgresMemoryStore(shared_url, schema=schema) as other,
    ):
        one.clock = other.clock = lambda: now[0]
        await other.add(said("later"), ttl=5_000)
        await one.add(said("shared", MemoryMetadata(user_id="ada")), ttl=10)
        now[0] = 2_000.0
        await _overwriting(said("shared", MemoryMetadata(user_id=user)))[way](other)
        found = await other.get("shared")
        assert found is not None
        assert (found.metadata.user_id, found.version) == (user, 1)


async def test_what_has_expired_is_not_counted_as_deleted_by_a_batch(store: PostgresMemoryStore) -> None:
    now = [1_000.0]
    store.clock = lambda: now[0]
    await store.add_many([said("over"), said("there")])
    await store.touch(["over"], ttl=10)
    now[0] = 2_000.0
    assert await store.apply(adds=[said("new")], deletes=["over", "there"]) == 1


async def test_an_item_that_lives_on_is_replaced_and_keeps_its_owner(store: PostgresMemoryStore) -> None:
    await store.add(said("kept", MemoryMetadata(user_id="ada")), ttl=3_600)
    await store.add(said("kept", MemoryMetadata(user_id="ada")), ttl=3_600)
    with pytest.raises(IdConflictError):
        await store.add(said("kept", MemoryMetadata(user_id="ben")))
    found = await store.get("kept")
    assert found is not None
    assert (found.metadata.user_id, found.version) == ("ada", 2)


async def test_owners_are_listed_page_by_page(store: PostgresMemoryStore) -> None:
    reference = InMemoryStore()
    items = [
        said(str(number), MemoryMetadata(user_id=f"u{number:04d}", namespace=("n", f"{number // 3:03d}", str(number))))
        for number in range(1_203)
    ]
    for each in (store, reference):
        await each.add_many(items)
    for options in ({}, {"by": "namespace"}, {"by": "namespace", "depth": 2}, {"by": "namespace", "depth": 1}):
        assert await listed(store.owners(**options)) == await listed(reference.owners(**options))


async def test_keys_of_conditions_are_never_taken_for_sql(store: PostgresMemoryStore) -> None:
    keys = ["'; DROP TABLE memory_items; --", '"', "a'b", "$1", "%s", "\\", "extra'"]
    await store.add(said("x", MemoryMetadata(extra=dict.fromkeys(keys, 1))))
    for key in keys:
        assert len(await store.search(where={f"extra.{key}": {"$gte": 1}})) == 1
    assert await store.count() == 1
