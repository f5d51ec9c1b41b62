"""The order of creation is kept as numbers: the same order as that of the text, whoever wrote it."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.items import utc_text
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_sqlite.tables import microseconds, span, text_of

DATA = Path(__file__).parent / "data"
EXTREMES = [
    "0001-01-01T00:00:00.000000+00:00",
    "0001-01-01T00:00:00.000001+00:00",
    "1582-10-10T12:00:00.000000+00:00",
    "1900-02-28T23:59:59.999999+00:00",
    "1969-12-31T23:59:59.999999+00:00",
    "1970-01-01T00:00:00.000000+00:00",
    "2000-02-29T00:00:00.999999+00:00",
    "2024-05-01T10:00:00.000001+00:00",
    "9999-12-31T23:59:59.999999+00:00",
]
INSERT = (
    "INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at, "
    "deleted, version) VALUES (?, 'x', 'human', 'accepted', '{\"user_id\": \"ada\"}', '{}', ?, '', 0, 1)"
)
ADA = MemoryMetadata(user_id="ada")

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    datetime(1, 1, 2),  # noqa: DTZ001 - hypothesis gives them their zones
    datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=zones,
)
texts = moments.map(utc_text) | st.sampled_from(EXTREMES)


@given(texts, texts)
def test_numbers_have_the_order_of_their_texts(one: str, other: str) -> None:
    assert (microseconds(one) < microseconds(other)) == (one < other)
    assert text_of(microseconds(one)) == one


@given(st.dates())
def test_a_day_and_a_month_begin_and_end_as_their_texts_do(date: object) -> None:
    day = str(date)
    for prefix in (day, day[:7]):
        first, end = span(prefix)
        assert text_of(first).startswith(prefix)
        assert text_of(end - 1).startswith(prefix)
        assert prefix.startswith(("9999-12", "0001-01")) or not text_of(first - 1).startswith(prefix)
    assert span("2023-02-30") == (0, 0)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    """Another program's connection: it has none of our functions."""
    path = tmp_path_factory.mktemp("times") / "a.db"
    asyncio.run(created(path))
    return sqlite3.connect(path)


async def created(path: Path) -> None:
    async with SQLiteMemoryStore(path):
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments, st.sampled_from(["T", " "]), st.sampled_from(["auto", "seconds", "milliseconds", "microseconds"]))
def test_what_others_write_has_the_number_of_its_time(
    plain: sqlite3.Connection, moment: datetime, between: str, precision: str
) -> None:
    text = moment.isoformat(between, precision)
    for form in {text, text.replace("+00:00", "Z")}:
        with plain:
            plain.execute(INSERT, ("one", form))
            assert plain.execute("SELECT created_us FROM memory_items").fetchall() == [(microseconds(form),)]
            plain.execute("DELETE FROM memory_items")


async def test_rows_of_others_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    forms = ["now", "2024-05-01", "2024-05-01T12:00:00+05:00", "2024-05-01 08:00:00.5", "2024-05-01T09:00:00Z"]
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="ours", content="x", metadata=ADA, created_at="2024-05-01T08:30:00Z"))
        with sqlite3.connect(path) as connection:
            connection.executemany(INSERT, [(form, form) for form in reversed(forms)])
        expected = [*forms[:4], "ours", forms[4]]
        assert [item.id for item in await store.search(metadata=ADA)] == expected[::-1]
        assert [item.id async for item in store.scan()] == expected
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE memory_items SET created_at = '2030-01-01' WHERE id = 'now'")
        assert [item.id for item in await store.search(metadata=ADA, limit=2)] == ["now", forms[4]]
        (owner,) = [owner async for owner in store.owners("user_id")]
        assert (owner.first, owner.last) == (utc_text("2024-05-01"), utc_text("2030-01-01"))


async def test_an_adopted_file_keeps_the_order_of_its_times(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    minutes = [f"2024-05-01T10:{minute:02}:00.000000+00:00" for minute in range(30, 60)]
    times = [*EXTREMES, *minutes]
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "ten_columns.sql").read_text(encoding="utf-8"))
    with connection:
        connection.execute("DELETE FROM memory_items")
        connection.executemany(INSERT, [(time, time) for time in sorted(times, key=lambda time: time[::-1])])
    before = [row[0] for row in connection.execute("SELECT id FROM memory_items ORDER BY created_at, rowid")]
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        assert [item.id async for item in store.scan()] == before


async def test_a_kept_time_of_creation_keeps_its_place(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        items = [HumanMemory(id=f"id-{n}", content="x", created_at=f"2024-05-0{n}") for n in range(1, 4)]
        await store.add_many(items)
        await store.add_many([HumanMemory(id="id-1", content="later")], keep_created=True)
        assert [item.id for item in await store.search()] == ["id-3", "id-2", "id-1"]
