"""Reads as of a moment, where the clock was wrong for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from receipt_stores import START, Clock, opened

from memoranda import HumanMemory

AHEAD = 4 * 365 * 24 * 3600.0

ENGINES = ["memory", "sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis"))]


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def moment(after: float) -> str:
    """Return the time so many seconds after the start."""
    return datetime.fromtimestamp(START + after, UTC).isoformat(timespec="microseconds")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("last", "shown"),
    [("update", ["second"]), ("touch", ["ahead"]), ("delete", []), ("restore", ["ahead"])],
)
async def test_what_changed_while_the_clock_was_ahead_hides_no_later_change(
    engine: str, last: str, shown: list[str], servers: ExitStack, tmp_path: Path
) -> None:
    """A text that was replaced, or deleted, does not come back for the years that the clock was ahead."""
    async with opened(engine, servers, tmp_path, revisions=True) as store:
        store.clock = clock = Clock()
        handle = store.scoped(user_id="ada", session_id="s")
        await handle.add(HumanMemory(id="m", content="first", created_at=moment(0)), ttl=10 * AHEAD)
        clock.time = START + AHEAD
        first = await handle.get("m")
        assert first is not None
        ahead = await handle.update(first.model_copy(update={"content": "ahead"}))
        clock.time = START + 60
        if last == "update":
            await handle.update(ahead.model_copy(update={"content": "second"}))
        elif last == "touch":
            await handle.touch(["m"])
        else:
            await handle.delete("m")
        clock.time = START + 120
        if last == "restore":
            await handle.restore("m")

        before = await handle.window(as_of=moment(30))
        assert [item.content for item in before] == ["first"]
        now = await handle.window(as_of=moment(180))
        assert [item.content for item in now] == shown == [item.content for item in await handle.window()]
