"""Conditions on values mean in the engine what they mean in Python, whatever the values and the operators are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.store import InMemoryStore
from memoranda.store.backend import ITEM_FIELDS, Filter, value_conditions
from memoranda_sqlite import SQLiteMemoryStore

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("sqlite values")

MANY = 1_000
TEXTS = ["", "a", "A", "é", "z", "10", "9", "true", "null", '"', "x'y", "\U0001f600", "￿"]
NUMBERS = [0, 1, -1, 1.0, 1.5, 2**53, 2**53 + 1, 2**63, -(2**70), 1e300]
VALUES: list[Any] = [
    *(None, True, False),
    *TEXTS,
    *NUMBERS,
    *([], ["a"], ["a", "b"], [1], [1.0], {}, {"k": 1}, {"k": [None, True]}, ["a/b", "~"]),
]
KEYS = ["score", "b-c d", "kind", "a.b", 'a"b', "$.user_id", "x' OR 1=1 --", "ключ", "extra"]
EXTRAS: list[dict[str, Any]] = [{}, *({key: value} for key in KEYS[:4] for value in VALUES), {"extra": {"kind": 1}}]


def some_items() -> list[MemoryItem]:
    items: list[MemoryItem] = [
        HumanMemory(id=f"extra-{number}", content="x", metadata=MemoryMetadata(extra=extra))
        for number, extra in enumerate(EXTRAS)
    ]
    for number, text in enumerate(TEXTS):
        metadata = MemoryMetadata(user_id=text, session_id=text or None, namespace=(text, "b/c"), agent_id="a")
        items.append(ToolMemory(id=f"tool-{number}", content=text, tool_name=text, tool_call_id=text, name=text))
        items.append(
            AIMemory(id=f"ai-{number}", content=text, metadata=metadata, created_at=f"2024-01-{number + 1:02}")
        )
    items.append(MemoryItem(id="odd", content="x", memory_type="odd", tool_name=5))  # type: ignore[call-arg]
    items.append(HumanMemory(id="archived", content="x", archived_by="odd", metadata=MemoryMetadata(namespace=("a",))))
    items.append(HumanMemory(id="mortal", content="x", expires_at="2099-01-01"))
    return items


ITEMS = some_items()

times = st.sampled_from(["2024-01-03", "2024-01-05T00:00:00+02:00", None])
values = (
    st.sampled_from(VALUES)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)
)
comparable = values.filter(lambda value: isinstance(value, (int, float, str)) and not isinstance(value, bool))


def asked_of(key: str) -> st.SearchStrategy[Any]:
    plain = times if key in ("created_at", "updated_at", "expires_at") else values
    ordered = times.filter(lambda time: time is not None) if plain is times else comparable
    operators = {
        **dict.fromkeys(("$eq", "$ne"), plain),
        **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered),
        "$in": st.lists(plain, max_size=4),
        "$exists": st.booleans(),
    }
    return st.sampled_from(sorted(operators)).flatmap(
        lambda operator: operators[operator].map(lambda value: {operator: value})
    )


keys = st.sampled_from([*KEYS, *ITEM_FIELDS, "extra.user_id"])
wheres = keys.flatmap(lambda key: asked_of(key).map(lambda asked: {key: asked}))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values") / "a.db"

    async def fill() -> None:
        async with SQLiteMemoryStore(path) as store:
            await store.add_many(ITEMS)

    asyncio.run(fill())
    return path


@pytest.fixture(scope="module")
def stored(path: Path) -> list[MemoryItem]:
    async def read() -> list[MemoryItem]:
        async with SQLiteMemoryStore(path) as store:
            return [item async for item in store.scan(order="added")]

    return asyncio.run(read())


@pytest.mark.rare
@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(asked=st.lists(wheres, min_size=20, max_size=40))
def test_the_engine_finds_what_matches(path: Path, stored: list[MemoryItem], asked: list[dict[str, Any]]) -> None:
    async def found() -> list[list[str]]:
        async with SQLiteMemoryStore(path) as store:
            return [[item.id async for item in store.scan(where=where, order="added")] for where in asked]

    for where, ids in zip(asked, asyncio.run(found()), strict=True):
        wanted = Filter(archived=None, further=value_conditions(where))
        assert ids == [item.id for item in stored if wanted.matches(item)], where


@pytest.mark.parametrize("where", [{"score": {"$gte": 1}, "kind": {"$exists": False}}, {"user_id": None}])
async def test_conditions_bound_what_is_cleared_and_counted(path: Path, where: dict[str, Any], tmp_path: Path) -> None:
    reference = InMemoryStore()
    await reference.add_many(ITEMS)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(ITEMS)
        assert await store.count(where=where) == await reference.count(where=where)
        assert await store.clear(where=where) == await reference.clear(where=where)
        left = [item.id async for item in store.scan(order="added")]
        assert left == [item.id async for item in reference.scan(order="added")]


@pytest.mark.parametrize("place", ["most", "few"])
async def test_a_filter_of_a_place_gives_the_same_page_however_much_lies_in_it(tmp_path: Path, place: str) -> None:
    items = [
        HumanMemory(
            id=f"i{number}",
            content="x",
            metadata=MemoryMetadata(
                user_id="ada" if number % 7 else "bob",
                namespace=("most" if number % 5 else "few", f"p{number % 3}"),
                extra={"score": number % 100, "kind": ("fact", "plan")[number % 2]},
            ),
            created_at=f"2024-01-01T00:00:{number % 60:02}",
        )
        for number in range(1_500)
    ]
    async with InMemoryStore() as reference, SQLiteMemoryStore(tmp_path / "a.db") as store:
        pages = []
        for each in (reference, store):
            await each.add_many(items)
            handle = each.scoped(user_id="ada", namespace=(place,))
            found = [
                await handle.search(
                    where={"score": {"$gte": 40}, "kind": "fact"},
                    order=order,
                    limit=300,
                    offset=offset,
                    mode="substring",
                )
                for order in ("created", "updated", "added")
                for offset in (0, 5)
            ]
            pages.append([[item.id for item in page] for page in found])

    assert pages[0] == pages[1]
    assert all(pages[0])
