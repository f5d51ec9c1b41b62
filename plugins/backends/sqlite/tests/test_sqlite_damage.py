"""Whatever is damaged in a file, callers see memoranda's errors only, and none of them repeats what was stored."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, MemoryError
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore

ADA, BOB = MemoryMetadata(user_id="ada", session_id="s"), MemoryMetadata(user_id="bob")
PAGE = 4096

Call = Callable[[SQLiteMemoryStore], Awaitable[object]]


async def scan(store: SQLiteMemoryStore) -> object:
    return [item async for item in store.scan(include_deleted=True)]


async def update(store: SQLiteMemoryStore) -> object:
    item = await store.get("ada-7")
    return item and await store.update(item)


CALLS: dict[str, Call] = {
    "get": lambda store: store.get("ada-3"),
    "search": lambda store: store.search(limit=10_000),
    "payloads": lambda store: store.payloads(),
    "search of a scope": lambda store: store.search(metadata=ADA),
    "search by substring": lambda store: store.search(query="garden", limit=10_000),
    "search by rare substring": lambda store: store.search(query="number 17", limit=10_000),
    "search by text": lambda store: store.search(query="garden number", mode="text", limit=10_000),
    "search by text in a scope": lambda store: store.search(query="garden", metadata=ADA, mode="text"),
    "search by meaning": lambda store: store.search(query="garden", mode="semantic", limit=10_000),
    "search by both": lambda store: store.search(query="garden", mode="hybrid", limit=10_000),
    "ranked search": lambda store: store.search_ranked(query="garden", metadata=BOB, mode="hybrid"),
    "count": lambda store: store.count(include_deleted=True),
    "count of a scope": lambda store: store.count(metadata=BOB),
    "scan": scan,
    "add": lambda store: store.add(HumanMemory(content="a new garden", metadata=ADA)),
    "replace": lambda store: store.add(HumanMemory(id="ada-5", content="another garden", metadata=ADA)),
    "add many": lambda store: store.add_many([HumanMemory(content=f"garden {n}", metadata=BOB) for n in range(200)]),
    "update": update,
    "delete": lambda store: store.delete("ada-9"),
    "restore": lambda store: store.restore(metadata=ADA),
    "clear": lambda store: store.clear(metadata=BOB),
    "fill indexes": lambda store: store.fill_indexes(),
    "doctor": lambda store: store.doctor(),
    "repair": lambda store: store.doctor(repair=True),
    "purge one": lambda store: store.purge("ada-11"),
    "purge": lambda store: store.purge(metadata=ADA),
    "purge of the bin": lambda store: store.purge(deleted_only=True),
    "reindex": lambda store: store.reindex(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file that has something in each of its tables."""
    path = tmp_path_factory.mktemp("whole") / "a.db"

    async def made() -> None:
        async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings(dimension=32)) as store:
            for name, owner in (("ada", ADA), ("bob", BOB)):
                await store.add_many(
                    [
                        HumanMemory(id=f"{name}-{n}", content=f"the garden of {name}, number {n}", metadata=owner)
                        for n in range(550)
                    ]
                )
            await store.fill_indexes()
            await store.add(HumanMemory(id="ada-1", content="a changed garden", metadata=ADA))
            await store.delete("ada-2")

    asyncio.run(made())
    return path.read_bytes()


def damaged(whole: bytes, choices: random.Random) -> bytes:
    """Return the file with a few pages overwritten, in part or in whole, or a few bytes changed."""
    content = bytearray(whole)
    pages = len(content) // PAGE
    for _ in range(choices.choice([1, 1, 2, 5])):
        start = choices.randrange(pages) * PAGE
        # The first hundred bytes are the file's header: without it there is no database at all.
        start, length = max(start, 100), choices.choice([PAGE, 512, 64])
        kind = choices.choice(["noise", "zeros", "a few bytes", "another page"])
        if kind == "noise":
            content[start : start + length] = choices.randbytes(length)
        elif kind == "zeros":
            content[start : start + length] = bytes(length)
        elif kind == "another page":
            other = max(choices.randrange(pages) * PAGE, 100)
            content[start : start + length] = content[other : other + length]
        else:
            for _ in range(20):
                content[start + choices.randrange(PAGE - 100)] = choices.randrange(256)
    return bytes(content[: len(whole)])


async def errors_of(path: Path, *, with_embedder: bool) -> dict[str, Exception]:
    """Call everything, each on the file as the one before left it, and return what was raised."""
    raised: dict[str, Exception] = {}
    embeddings = HashingEmbeddings(dimension=32) if with_embedder else None
    store = SQLiteMemoryStore(path, embeddings=embeddings, durability="normal", busy_timeout=1)
    try:
        await store.init()
    except Exception as error:  # noqa: BLE001 - what it is, is what is looked at
        return {"init": error}
    for name, call in CALLS.items():
        if with_embedder or "meaning" not in name:
            try:
                await call(store)
            except Exception as error:  # noqa: BLE001
                raised[name] = error
    try:
        await store.close()
    except Exception as error:  # noqa: BLE001
        raised["close"] = error
    return raised


@pytest.mark.rare
@pytest.mark.parametrize("seed", range(24))
async def test_a_damaged_file_raises_no_error_of_the_driver(tmp_path: Path, whole: bytes, seed: int) -> None:
    choices = random.Random(seed)
    path = tmp_path / "a.db"
    path.write_bytes(damaged(whole, choices))
    raised = await errors_of(path, with_embedder=seed % 3 > 0)
    assert {name: error for name, error in raised.items() if not isinstance(error, MemoryError)} == {}


COLUMNS = ["id", "content", "memory_type", "status", "metadata", "extra_json", "created_at", "updated_at"]


@pytest.mark.rare
@pytest.mark.parametrize("column", COLUMNS)
async def test_text_that_is_no_unicode_is_a_library_error_without_the_text(
    tmp_path: Path, whole: bytes, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE memory_items SET {column} = CAST(x'6875736820ff6875736821' AS TEXT) WHERE id = 'ada-3'")
    connection.commit()
    connection.close()
    caplog.set_level("INFO")
    raised = await errors_of(path, with_embedder=True)
    assert {name: error for name, error in raised.items() if not isinstance(error, MemoryError)} == {}
    assert "hush" not in " ".join(map(str, raised.values())) + caplog.text


async def test_the_doctor_does_not_repeat_text_that_is_no_unicode(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE memory_items SET content = CAST(x'6875736820ff' AS TEXT) WHERE id = 'ada-3'")
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        findings = {finding.name: finding for finding in await store.doctor()}
    assert not findings["rows"].ok
    assert "hush" not in repr(findings)


async def test_text_that_is_no_unicode_is_named_by_its_item(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE memory_items SET content = CAST(x'ff' AS TEXT) WHERE id = 'ada-3'")
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        with pytest.raises(CorruptStoreError, match="ada-3"):
            await store.get("ada-3")


@pytest.mark.parametrize("metadata", ["'{\"extra\":'", "'{extra: {score: 5}}'", "''", "x'ff00'"])
async def test_a_filter_passes_over_metadata_that_is_no_json(tmp_path: Path, metadata: str) -> None:
    path = tmp_path / "a.db"
    scored = [
        HumanMemory(id=f"i{n}", content="x", metadata=MemoryMetadata(user_id="ada", extra={"score": n % 6}))
        for n in range(600)
    ]
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(scored)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE memory_items SET metadata = {metadata} WHERE id = 'i5'")
    connection.execute("UPDATE memory_items SET user_id = 'ada' WHERE id = 'i5'")
    connection.commit()
    connection.close()

    async with SQLiteMemoryStore(path) as store:
        found = await store.scoped(user_id="ada").search(where={"score": 5}, limit=1000, mode="substring")

    assert {item.id for item in found} == {item.id for item in scored if item.metadata.extra["score"] == 5} - {"i5"}


META = ["schema_version", "indexed", "terms", "text_index", "vector_model"]


@pytest.mark.rare
@pytest.mark.parametrize("key", META)
@pytest.mark.parametrize("value", ["NULL", "'x'", "-5", "9223372036854775807", "CAST(x'ff' AS TEXT)"])
async def test_odd_values_beside_the_schema_raise_library_errors(
    tmp_path: Path, whole: bytes, key: str, value: str
) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE memoranda_meta SET value = {value} WHERE key = '{key}'")
    connection.commit()
    connection.close()
    raised = await errors_of(path, with_embedder=True)
    assert {name: error for name, error in raised.items() if not isinstance(error, MemoryError)} == {}
