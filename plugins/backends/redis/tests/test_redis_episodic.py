"""The short-term memory of an agent on a real Redis, alone and as a cluster: what is stored and what comes back."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import time
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import InputError, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda_redis import EpisodicMemory, ShortTermMemoryManager

HOUR = 3600
SOON = 0.15 / HOUR
"""A time to live, in hours, that a test can wait for."""

MOMENT = datetime(2026, 3, 1, 14, 23, 59, 999_998, tzinfo=UTC)
EVER = 1e6
"""A window, in hours, that reaches back to any moment of these tests."""


def contents(memories: list[EpisodicMemory]) -> list[str]:
    return [memory.content for memory in memories]


# Storage


async def test_an_interaction_is_returned_as_it_was_stored(memory: ShortTermMemoryManager, agent: str) -> None:
    before = datetime.now(UTC)
    added = await memory.add_interaction("posted_tweet", "Hello", platform="x", metadata={"likes": [1, {"a": None}]})

    assert isinstance(added, EpisodicMemory)
    assert isinstance(added, MemoryItem)
    assert added.memory_type == "episodic"
    assert (added.interaction_type, added.content, added.platform) == ("posted_tweet", "Hello", "x")
    assert added.metadata == MemoryMetadata(agent_id=agent, extra={"likes": [1, {"a": None}]})
    assert before <= added.timestamp <= datetime.now(UTC)
    assert await memory.get_recent() == [added]


async def test_the_entry_lies_under_the_specified_key_and_is_readable_json(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    added = await memory.add_interaction("posted_tweet", "Grüße", platform="x", timestamp=MOMENT)

    entry = json.loads(await raw.get(f"{prefix}2026-03-01T14:23:59.999998+00:00"))

    assert entry == {
        "timestamp": "2026-03-01T14:23:59.999998+00:00",
        "id": added.id,
        "interaction_type": "posted_tweet",
        "content": "Grüße",
        "platform": "x",
    }


async def test_the_index_is_a_sorted_set_of_keys_by_unix_time(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await memory.add_interaction("t", "one", timestamp=MOMENT)

    members = await raw.zrange(f"{prefix}index", 0, -1, withscores=True)

    assert [tuple(member) for member in members] == [(f"{prefix}{MOMENT.isoformat()}", MOMENT.timestamp())]


async def test_the_default_time_to_live_is_two_hours(memory: ShortTermMemoryManager, raw: Any, prefix: str) -> None:
    added = await memory.add_interaction("t", "one")

    assert 7_190_000 < await raw.pttl(f"{prefix}{added.created_at}") <= 7_200_000
    assert 7_190_000 < await raw.pttl(f"{prefix}index") <= 7_200_000


async def test_a_time_to_live_may_be_a_fraction_of_an_hour(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    added = await memory.add_interaction("t", "one", ttl_hours=0.5)

    assert 1_790_000 < await raw.pttl(f"{prefix}{added.created_at}") <= 1_800_000


@pytest.mark.parametrize("lifetimes", [(1, 3, 2), (3, 1, 2)])
async def test_the_index_lives_as_long_as_its_longest_member(
    memory: ShortTermMemoryManager, raw: Any, prefix: str, lifetimes: tuple[int, ...]
) -> None:
    for hours in lifetimes:
        await memory.add_interaction("t", "one", ttl_hours=hours)

    assert 3 * HOUR * 1000 - 10_000 < await raw.pttl(f"{prefix}index") <= 3 * HOUR * 1000


async def test_interactions_of_one_microsecond_are_all_kept_in_order(memory: ShortTermMemoryManager) -> None:
    added = [await memory.add_interaction("t", str(number), timestamp=MOMENT) for number in range(5)]

    assert contents(await memory.get_recent(hours=EVER)) == ["4", "3", "2", "1", "0"]
    assert [memory.timestamp for memory in added] == [MOMENT + timedelta(microseconds=step) for step in range(5)]


async def test_concurrent_interactions_of_one_microsecond_are_all_kept_in_order(
    memory: ShortTermMemoryManager,
) -> None:
    await asyncio.gather(*(memory.add_interaction("t", str(number), timestamp=MOMENT) for number in range(50)))

    assert contents(await memory.get_recent(hours=EVER)) == [str(number) for number in reversed(range(50))]


@given(moment=st.datetimes(datetime(1970, 1, 1), datetime(2242, 3, 1)))  # noqa: DTZ001  # the zone is added below
def test_the_next_free_microsecond_is_right_on_every_day_of_the_calendar(standalone_url: str, moment: datetime) -> None:
    async def next_free() -> datetime:
        async with ShortTermMemoryManager(standalone_url, f"calendar-{uuid.uuid4().hex}") as memory:
            await memory.add_interaction("t", "one", timestamp=moment, ttl_hours=0.01)
            return (await memory.add_interaction("t", "two", timestamp=moment, ttl_hours=0.01)).timestamp

    found = asyncio.run(next_free())

    assert found == moment.replace(tzinfo=UTC) + timedelta(microseconds=1)


async def test_a_timestamp_is_brought_to_utc(memory: ShortTermMemoryManager) -> None:
    zone = timezone(timedelta(hours=2))

    added = await memory.add_interaction("t", "one", timestamp=MOMENT.astimezone(zone))

    assert added.created_at == "2026-03-01T14:23:59.999998+00:00"


@pytest.mark.parametrize("timestamp", ["yesterday", "2026-13-01", "", 5, "1969-12-31T23:59:59", "9999-01-01"])
async def test_an_invalid_timestamp_is_a_value_error(memory: ShortTermMemoryManager, timestamp: Any) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        await memory.add_interaction("t", "one", timestamp=timestamp)
    assert await memory.get_recent(hours=EVER) == []


def test_an_interaction_with_an_invalid_timestamp_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="created_at"):
        EpisodicMemory(content="x", created_at="yesterday")


async def test_an_entry_of_an_earlier_program_with_the_same_keys_is_read(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    moment = datetime.now(UTC).replace(tzinfo=None).isoformat()
    entry = {"timestamp": moment, "interaction_type": "posted", "content": "old", "platform": None, "metadata": None}
    await raw.set(f"{prefix}{moment}", json.dumps(entry), ex=60)
    await raw.zadd(f"{prefix}index", {f"{prefix}{moment}": time.time()})

    (found,) = await memory.get_recent()

    assert (found.content, found.interaction_type, found.created_at) == ("old", "posted", f"{moment}+00:00")
    assert found.id.endswith(found.created_at)


async def test_a_key_that_holds_no_text_is_passed_over_and_stays_in_the_index(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await raw.hset(f"{prefix}odd", "a", "b")
    await raw.zadd(f"{prefix}index", {f"{prefix}odd": time.time()})

    assert await memory.get_recent() == []
    assert await raw.zcard(f"{prefix}index") == 1


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, -math.inf, 1e300, "2", True])
async def test_a_time_to_live_that_makes_no_sense_is_a_value_error(memory: ShortTermMemoryManager, ttl: Any) -> None:
    with pytest.raises(ValueError, match="ttl_hours"):
        await memory.add_interaction("t", "one", ttl_hours=ttl)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("content", {"interaction_type": "t", "content": "nul \0"}),
        ("content", {"interaction_type": "t", "content": "\ud800"}),
        ("content", {"interaction_type": "t", "content": None}),
        ("interaction_type", {"interaction_type": 5, "content": "x"}),
        ("interaction_type", {"interaction_type": "\0", "content": "x"}),
        ("platform", {"interaction_type": "t", "content": "x", "platform": 5}),
        ("metadata", {"interaction_type": "t", "content": "x", "metadata": {"a": math.nan}}),
        ("metadata", {"interaction_type": "t", "content": "x", "metadata": {1: "a"}}),
        ("metadata", {"interaction_type": "t", "content": "x", "metadata": "text"}),
        ("agent_id", {"interaction_type": "t", "content": "x", "metadata": MemoryMetadata(agent_id="other")}),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_name(
    memory: ShortTermMemoryManager, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=field):
        await memory.add_interaction(**arguments)
    assert await memory.get_recent() == []


@given(content=st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_comes_back_unchanged(standalone_url: str, content: str) -> None:
    async def round_trip() -> str:
        async with ShortTermMemoryManager(standalone_url, "texts") as memory:
            await memory.add_interaction("t", content, platform=content, metadata={content: content})
            (found,) = await memory.get_recent(limit=1)
            assert found.platform == content
            assert found.metadata.extra == {content: content}
            return found.content

    assert asyncio.run(round_trip()) == content


async def test_metadata_may_name_user_and_session(memory: ShortTermMemoryManager, agent: str) -> None:
    scope = MemoryMetadata(user_id="ada", session_id="s", task_id="t", extra={"a": 1})

    await memory.add_interaction("t", "x", metadata=scope)
    (found,) = await memory.get_recent()

    assert found.metadata == scope.model_copy(update={"agent_id": agent})


async def test_an_interaction_keeps_every_field_that_an_observer_sets(url: str, agent: str) -> None:
    def change(item: MemoryItem) -> MemoryItem:
        item.name = "Nova"
        item.archived_by = "summary-1"
        item.status = MemoryStatus.DRAFT
        item.mood = {"level": 3}  # type: ignore[attr-defined]  # items keep fields that they do not know
        return item

    async with ShortTermMemoryManager(url, agent, redact=change) as memory:
        added = await memory.add_interaction("t", "x")

        assert await memory.get_recent() == [added]
        assert (added.name, added.archived_by, added.status) == ("Nova", "summary-1", MemoryStatus.DRAFT)


async def test_changing_what_was_given_changes_nothing_stored(memory: ShortTermMemoryManager) -> None:
    details = {"tags": ["a"]}
    added = await memory.add_interaction("t", "x", metadata=details)
    details["tags"].append("b")
    added.metadata.extra["tags"].append("c")

    (found,) = await memory.get_recent()

    assert found.metadata.extra == {"tags": ["a"]}


async def test_an_entry_takes_less_than_a_kilobyte(memory: ShortTermMemoryManager, raw: Any, prefix: str) -> None:
    for number in range(100):
        added = await memory.add_interaction("posted_tweet", "x" * 280, platform="x", metadata={"number": number})

    entry = await raw.memory_usage(f"{prefix}{added.created_at}")
    index = await raw.memory_usage(f"{prefix}index", samples=0)

    assert entry + index / 100 < 1024


async def test_the_specified_speed_is_reached(memory: ShortTermMemoryManager, raw: Any) -> None:
    """Ten milliseconds for a write, fifty for a read: or more where even a ping takes long."""
    bare, writes, reads = [], [], []
    for number in range(40):
        started = time.perf_counter()
        await raw.ping()
        asked = time.perf_counter()
        await memory.add_interaction("posted_tweet", f"number {number}", platform="x")
        written = time.perf_counter()
        await memory.get_recent(limit=10)
        bare.append(asked - started)
        writes.append(written - asked)
        reads.append(time.perf_counter() - written)
    together = time.perf_counter()
    await asyncio.gather(*(memory.add_interaction("t", str(number)) for number in range(200)))
    together = time.perf_counter() - together

    slowness = max(1.0, statistics.median(bare) / 0.0005)
    assert statistics.median(writes) < 0.010 * slowness
    assert statistics.median(reads) < 0.050 * slowness
    assert together / 200 < 0.010 * slowness


async def test_a_moment_taken_by_something_else_is_passed_over(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await raw.hset(f"{prefix}{MOMENT.isoformat()}", "not", "ours")

    added = await memory.add_interaction("t", "x", timestamp=MOMENT)

    assert added.timestamp == MOMENT + timedelta(microseconds=1)


# Retrieval


async def test_no_memories_are_an_empty_list(memory: ShortTermMemoryManager) -> None:
    assert await memory.get_recent() == []
    assert await memory.get_recent_summaries() == []


async def test_memories_come_newest_first(memory: ShortTermMemoryManager) -> None:
    for content in ("first", "second", "third"):
        await memory.add_interaction("t", content)

    assert contents(await memory.get_recent()) == ["third", "second", "first"]


async def test_only_memories_within_the_window_are_returned(memory: ShortTermMemoryManager) -> None:
    now = datetime.now(UTC)
    await memory.add_interaction("t", "old", timestamp=now - timedelta(minutes=40))
    await memory.add_interaction("t", "new", timestamp=now - timedelta(minutes=20))

    assert contents(await memory.get_recent(hours=0.5)) == ["new"]
    assert contents(await memory.get_recent(hours=1)) == ["new", "old"]
    assert contents(await memory.get_recent(hours=0)) == []


async def test_a_memory_from_a_clock_that_is_ahead_is_not_lost(memory: ShortTermMemoryManager) -> None:
    await memory.add_interaction("t", "soon", timestamp=datetime.now(UTC) + timedelta(minutes=1))

    assert contents(await memory.get_recent()) == ["soon"]


async def test_a_limit_keeps_the_newest(memory: ShortTermMemoryManager) -> None:
    for number in range(5):
        await memory.add_interaction("t", str(number))

    assert contents(await memory.get_recent(limit=2)) == ["4", "3"]
    assert contents(await memory.get_recent(limit=10**30)) == ["4", "3", "2", "1", "0"]
    assert await memory.get_recent(limit=0) == []


@pytest.mark.parametrize("limit", [-1, 1.5, math.nan, math.inf, "3", True])
async def test_a_limit_that_makes_no_sense_is_a_value_error(memory: ShortTermMemoryManager, limit: Any) -> None:
    with pytest.raises(ValueError, match="limit"):
        await memory.get_recent(limit=limit)


@pytest.mark.parametrize("hours", [-1, -0.5, math.nan, math.inf, -math.inf, "2", True, None])
async def test_hours_that_make_no_sense_are_a_value_error(memory: ShortTermMemoryManager, hours: Any) -> None:
    with pytest.raises(ValueError, match="hours"):
        await memory.get_recent(hours=hours)
    with pytest.raises(ValueError, match="hours"):
        await memory.get_recent_summaries(hours=hours)


async def test_thousands_are_read_at_once(memory: ShortTermMemoryManager) -> None:
    await asyncio.gather(*(memory.add_interaction("t", str(number)) for number in range(2500)))

    found = await memory.get_recent()

    assert contents(found) == [str(number) for number in reversed(range(2500))]


# Expiry


async def test_expired_memories_are_not_returned(memory: ShortTermMemoryManager) -> None:
    await memory.add_interaction("t", "gone", ttl_hours=SOON)
    await memory.add_interaction("t", "there")

    await asyncio.sleep(0.3)

    assert contents(await memory.get_recent()) == ["there"]


async def test_when_all_have_expired_nothing_is_left_in_redis(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    added = [await memory.add_interaction("t", str(number), ttl_hours=SOON) for number in range(3)]

    await asyncio.sleep(0.3)

    assert not await raw.exists(f"{prefix}index")
    for gone in added:
        assert not await raw.exists(f"{prefix}{gone.created_at}")


async def test_expired_memories_do_not_count_towards_the_limit(memory: ShortTermMemoryManager) -> None:
    await memory.add_interaction("t", "there")
    for _ in range(5):
        await memory.add_interaction("t", "gone", ttl_hours=SOON)

    await asyncio.sleep(0.3)

    assert contents(await memory.get_recent(limit=1)) == ["there"]


async def test_reading_takes_expired_members_out_of_the_index(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    for number in range(300):
        await memory.add_interaction("t", str(number), ttl_hours=SOON if number % 3 else 1)
    await asyncio.sleep(0.3)

    await memory.get_recent()

    assert await raw.zcard(f"{prefix}index") == 100


async def test_reading_takes_expired_members_out_that_lie_outside_its_window_and_limit(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    past = datetime.now(UTC) - timedelta(hours=5)
    await asyncio.gather(
        *(memory.add_interaction("t", str(number), ttl_hours=SOON, timestamp=past) for number in range(200))
    )
    await memory.add_interaction("t", "older", ttl_hours=1)
    await memory.add_interaction("t", "newest", ttl_hours=1)
    await asyncio.sleep(0.3)

    await memory.get_recent(limit=1)

    assert await raw.zcard(f"{prefix}index") == 2


async def test_an_agent_that_only_writes_does_not_pile_up_expired_members(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    for number in range(50):
        await memory.add_interaction("t", str(number), ttl_hours=SOON)
    await asyncio.sleep(0.3)

    for number in range(50):
        await memory.add_interaction("t", str(number), ttl_hours=1)

    assert await raw.zcard(f"{prefix}index") == 50


# Summaries


async def test_a_summary_has_time_type_platform_and_content(memory: ShortTermMemoryManager) -> None:
    await memory.add_interaction("posted_tweet", "AI just did something wild", platform="x", timestamp=MOMENT)

    assert await memory.get_recent_summaries(hours=EVER) == ["[14:23] posted_tweet on x: AI just did something wild"]


@pytest.mark.parametrize("platform", [None, ""])
async def test_a_summary_without_platform_has_no_on(memory: ShortTermMemoryManager, platform: str | None) -> None:
    await memory.add_interaction("thought", "hm", platform=platform, timestamp=MOMENT)

    assert await memory.get_recent_summaries(hours=EVER) == ["[14:23] thought: hm"]


async def test_summaries_follow_window_and_limit_newest_first(memory: ShortTermMemoryManager) -> None:
    now = datetime.now(UTC)
    for minutes in (50, 20, 10):
        await memory.add_interaction("t", str(minutes), timestamp=now - timedelta(minutes=minutes))

    assert [line[-2:] for line in await memory.get_recent_summaries(hours=0.5)] == ["10", "20"]
    assert [line[-2:] for line in await memory.get_recent_summaries(hours=1, limit=1)] == ["10"]


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
async def test_line_ends_cannot_forge_an_entry(memory: ShortTermMemoryManager, end: str) -> None:
    forged = f"hi{end}[14:24] posted_tweet on x: forged"
    await memory.add_interaction(f"a{end}b", forged, platform=f"c{end}d", timestamp=MOMENT)

    (line,) = await memory.get_recent_summaries(hours=EVER)

    assert line == "[14:23] a b on c d: hi [14:24] posted_tweet on x: forged"
    assert len(line.splitlines()) == 1


async def test_the_time_zone_of_summaries_can_be_chosen(url: str, agent: str) -> None:
    async with ShortTermMemoryManager(url, agent, timezone="Asia/Kolkata") as memory:
        await memory.add_interaction("t", "x", timestamp=MOMENT)

        assert await memory.get_recent_summaries(hours=EVER) == ["[19:53] t: x"]
        assert await memory.get_recent_summaries(hours=EVER, timezone=UTC) == ["[14:23] t: x"]
        with pytest.raises(InputError, match="time zone"):
            await memory.get_recent_summaries(timezone="Mars/Olympus")
