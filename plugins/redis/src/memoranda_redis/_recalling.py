"""Reading an agent's interactions: those that cannot be read are left out and named."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from memoranda.store import Finding, left_out
from memoranda_redis.episodic import (
    CorruptEntryError,
    EpisodicMemory,
    InvalidTimestampError,
    load_entry,
    read_entry,
)

_LISTED_BY = "ShortTermMemoryManager.doctor()"

ALL = 2**53
"""A limit that means all; it fits a number of Lua."""

_MOST_NAMED = 10

Run = Callable[[Sequence[Any]], Awaitable[Any]]
"""Runs the script that reads, with these arguments."""


async def recall(run: Run, agent_id: str, since: float, limit: int) -> list[EpisodicMemory]:
    """Return at most ``limit`` interactions since a Unix time, newest first.

    What cannot be read takes no place under the limit. Raises InvalidTimestampError for an entry without a time.
    """
    odd, pages = await run(_arguments(since, limit, "together"))
    for key in odd:
        left_out(CorruptEntryError(agent_id, _shown(key), "it is no text"), _LISTED_BY)
    memories = []
    try:
        for text, count in _pairs(pages):
            memories += _read_together(text, count, agent_id)
            await asyncio.sleep(0)  # A page is a few milliseconds of work, and others want their turn.
    except CorruptEntryError:
        return await _recall_apart(run, agent_id, since, limit)
    return memories


async def _recall_apart(run: Run, agent_id: str, since: float, limit: int) -> list[EpisodicMemory]:
    """Recall entry by entry, so that those that can be read are not taken for the others."""
    asked = limit
    while True:
        _, entries = await run(_arguments(since, asked, "apart"))
        memories, unreadable = [], []
        for key, text in _pairs(entries):
            try:
                memories.append(read_entry(text, agent_id, _shown(key)))
            except InvalidTimestampError:
                raise
            except CorruptEntryError as error:
                unreadable.append(error)
        if len(memories) >= limit or len(memories) + len(unreadable) < asked:
            for corrupt in unreadable:
                left_out(corrupt, _LISTED_BY)
            return memories[:limit]
        asked = min(limit + len(unreadable), ALL)


async def examine_entries(run: Run, agent_id: str) -> Finding:
    """Return whether every entry of an agent can be read, naming those that cannot."""
    odd, entries = await run(_arguments(0.0, ALL, "apart"))
    unreadable = [_shown(key) for key in odd]
    count = len(odd)
    for key, text in _pairs(entries):
        count += 1
        try:
            read_entry(text, agent_id, _shown(key))
        except CorruptEntryError:
            unreadable.append(_shown(key))
    if not unreadable:
        return Finding("entries", True, f"all {count:,} can be read")
    named = ", ".join(map(repr, unreadable[:_MOST_NAMED])) + (", …" if len(unreadable) > _MOST_NAMED else "")
    return Finding(
        "entries",
        False,
        f"{len(unreadable):,} of {count:,} cannot be read: {named}",
        "Delete these keys in Redis, and find out which program writes them.",
    )


def _arguments(since: float, limit: int, how: str) -> list[Any]:
    return [f"{since:.6f}", limit, random.random(), how]


def _read_together(text: bytes, count: int, agent_id: str) -> list[EpisodicMemory]:
    try:
        entries = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptEntryError(agent_id, "", "it is no JSON") from error
    if len(entries) != count:
        raise CorruptEntryError(agent_id, "", "it is more than one")
    return [load_entry(entry, agent_id) for entry in entries]


def _pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _shown(key: bytes) -> str:
    return key.decode(errors="backslashreplace")
