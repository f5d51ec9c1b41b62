"""Older schemas are brought along when a store is opened, and end as a new one begins."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda_postgres import PostgresMemoryStore

FIRST = """
CREATE SEQUENCE memory_items_added;
CREATE TABLE memory_items (
    id TEXT COLLATE "C" NOT NULL, content TEXT NOT NULL, memory_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL, metadata JSONB NOT NULL, extra_json TEXT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL, updated_at TEXT COLLATE "C" NOT NULL, deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1, user_id TEXT COLLATE "C", session_id TEXT COLLATE "C",
    task_id TEXT COLLATE "C", agent_id TEXT COLLATE "C", archived BOOLEAN NOT NULL DEFAULT false,
    exact_metadata TEXT, folded TEXT COLLATE "C" NOT NULL, terms TEXT COLLATE "C" NOT NULL, lexemes TEXT COLLATE "C",
    token BIGINT NOT NULL DEFAULT 0, added BIGINT NOT NULL DEFAULT nextval('memory_items_added'), {key}
){partitioned};
{parts}
CREATE INDEX memory_items_time ON memory_items (created_at, added);
CREATE INDEX memory_items_user ON memory_items (user_id, created_at, added) WHERE user_id IS NOT NULL;
CREATE INDEX memory_items_session_live ON memory_items (session_id, created_at, added)
    WHERE deleted = 0 AND NOT archived AND session_id IS NOT NULL;
CREATE INDEX memory_items_bin ON memory_items (created_at, added) WHERE deleted = 1;
CREATE TABLE memory_schema (version INTEGER NOT NULL, partitions INTEGER NOT NULL, terms TEXT NOT NULL,
    vector_model TEXT, vector_dimension INTEGER);
INSERT INTO memory_schema VALUES (1, {partitions}, 'of another release');
INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at, user_id,
    session_id, folded, terms{owner})
SELECT id, content, 'human', 'accepted', '{{"user_id": "ada", "session_id": "s", "extra": {{}}}}', '{{}}',
    '2024-01-01T00:00:00.000000+00:00', '2024-01-01T00:00:00.000000+00:00', 'ada', 's', folded, terms{uada}
FROM (VALUES ('one', 'Straße', 'strasse', 'strass'), ('two', 'Green TEA', 'green tea', 'green tea')) AS old
    (id, content, folded, terms);
"""
PARTS = """
CREATE TABLE memory_items_0 PARTITION OF memory_items FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE memory_items_1 PARTITION OF memory_items FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE memory_ids (id TEXT COLLATE "C" PRIMARY KEY, owner TEXT COLLATE "C" NOT NULL);
CREATE INDEX memory_ids_owner ON memory_ids (owner);
INSERT INTO memory_ids VALUES ('one', 'uada'), ('two', 'uada');
"""
ADA = MemoryMetadata(user_id="ada")


MANY = """
INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at, user_id,
    session_id, folded, terms)
SELECT 'many' || number, content, 'human', 'accepted', '{"user_id": "ada", "session_id": "s", "extra": {}}', '{}',
    '2024-01-02T00:00:00.000000+00:00', '2024-01-02T00:00:00.000000+00:00', 'ada', 's', lower(content), 'made otherwise'
FROM (SELECT number, CASE number WHEN 700 THEN 'A Xylophone' ELSE 'Nothing' END AS content
    FROM generate_series(1, 1200) AS numbers (number)) AS old;
"""


async def make_first(url: str, partitions: int) -> None:
    """Make the tables of the first schema, with two items in them."""
    if partitions:
        parts = {
            "key": 'owner TEXT COLLATE "C" NOT NULL, PRIMARY KEY (owner, id)',
            "owner": ", owner",
            "uada": ", 'uada'",
        }
        parts |= {"partitioned": " PARTITION BY HASH (owner)", "parts": PARTS}
    else:
        parts = {"key": "PRIMARY KEY (id)", "owner": "", "uada": "", "partitioned": "", "parts": ""}
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(FIRST.format(partitions=partitions, **parts))
    finally:
        await connection.close()


async def described(url: str) -> tuple[Any, Any]:
    """Return the columns and the indexes of the tables."""
    connection = await asyncpg.connect(url)
    try:
        columns = await connection.fetch(
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY table_name, column_name"
        )
        indexes = await connection.fetch(
            "SELECT indexname, indexdef FROM pg_indexes "
            "WHERE schemaname = 'public' AND tablename !~ '_[0-9]$' ORDER BY indexname"
        )
    finally:
        await connection.close()
    return columns, indexes


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def test_the_first_schema_becomes_what_a_new_one_is(wheel: Any, partitions: int) -> None:
    with wheel.database() as old, wheel.database() as new:
        await make_first(old, partitions)
        for url in (old, new):
            async with PostgresMemoryStore(url, partitions=partitions):
                pass
        assert await described(old) == await described(new)


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def test_items_of_the_first_schema_are_read_found_and_changed(url: str, partitions: int) -> None:
    await make_first(url, partitions)
    async with PostgresMemoryStore(url) as store:
        assert [item.id async for item in store.scan()] == ["one", "two"]
        assert [item.id for item in await store.search(query="STRASSE")] == ["one"]
        assert (await store.search(query="green tea", metadata=ADA, mode="text"))[0].id == "two"
        await store.add(HumanMemory(id="one", content="Spät", metadata=ADA), ttl=1_000)
        assert [item.id for item in await store.search(query="SPÄT")] == ["one"]
        assert [owner.count async for owner in store.owners(by="user_id")] == [2]


TIMES = """
INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at, user_id,
    folded, terms)
SELECT time, '', 'human', 'accepted', '{"user_id": "ada", "extra": {"n": 1.50}}', '{}', time, changed, 'ada', '', ''
FROM (VALUES ('9999-12-31T23:59:59.999999+00:00', '9999-12-31T23:59:59.999999+00:00'),
    ('0001-01-01T00:00:00.000000+00:00', '2024-03-01T00:00:00.000000+00:00'), ('by hand', 'by hand'),
    ('0000-00-00T25:61:61.000000+00:00', 'nobody knows'), ('2024-02-30T00:00:00.000000+00:00', 'nobody knows'),
    ('1969-12-31T23:59:59.999999+00:00', '2024-02-01T00:00:00.000000+00:00')) AS old (time, changed);
"""


async def test_times_and_metadata_of_older_items_are_what_they_were(url: str) -> None:
    await make_first(url, 0)
    connection = await asyncpg.connect(url)
    await connection.execute(TIMES)
    await connection.close()
    async with PostgresMemoryStore(url) as store:
        found = {item.id: item async for item in store.scan()}
        by_hand, no_month, no_day, first, before_1970, *_, last = found
        assert [by_hand, no_month[:10], no_day[:10]] == ["by hand", "0000-00-00", "2024-02-30"]
        assert list(found)[3:] == [*sorted([first, before_1970]), "one", "two", last]
        assert all(item.created_at == item.id for item in found.values() if item.id not in ("one", "two"))
        assert found[first].updated_at == "2024-03-01T00:00:00.000000+00:00"
        assert found[last].updated_at == last
        assert found[first].metadata == MemoryMetadata(user_id="ada", extra={"n": 1.5})
        assert found["one"].metadata == MemoryMetadata(user_id="ada", session_id="s")
        changed = [item.id async for item in store.scan(order="updated")]
        assert changed == ["one", "two", before_1970, first, last, by_hand, no_month, no_day]


SIXTH = """
ALTER TABLE memory_items ALTER COLUMN expires_at DROP NOT NULL, ALTER COLUMN expires_at DROP DEFAULT;
UPDATE memory_items SET expires_at = NULL WHERE expires_at = '';
UPDATE memory_schema SET version = 6;
"""


async def test_lifetimes_of_the_sixth_schema_are_what_they_were(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add(HumanMemory(id="stays", content="tea", metadata=ADA))
        await store.add(HumanMemory(id="goes", content="tea", metadata=ADA), ttl=1_000)
        (goes,) = await store.get_many(["goes"])
    connection = await asyncpg.connect(url)
    await connection.execute(SIXTH)
    await connection.close()
    async with PostgresMemoryStore(url) as store:
        assert await store.count(metadata=ADA) == 2
        assert [item.id for item in await store.search(where={"expires_at": {"$exists": False}})] == ["stays"]
        assert [item.id for item in await store.search(where={"expires_at": goes.expires_at})] == ["goes"]


async def test_words_of_older_items_are_found_in_a_scope_too_large_to_be_read_whole(url: str) -> None:
    await make_first(url, 0)
    connection = await asyncpg.connect(url)
    await connection.execute(MANY)
    await connection.close()
    async with PostgresMemoryStore(url) as store:
        for scope in (ADA, None):
            (best, *_) = await store.search_ranked(query="xylophones", metadata=scope, mode="text", limit=3)
            assert (best.item.id, best.terms) == ("many700", ("xylophon",))
        assert {finding.name: finding.ok for finding in await store.doctor()}["terms"]
