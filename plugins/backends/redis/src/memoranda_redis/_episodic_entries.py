"""The entries of the episodic memory: the scripts that write and read them, and reading around damaged ones.

An entry is JSON text under ``<prefix><timestamp>`` and expires by itself. The index is a sorted set of the entries'
keys with the Unix time as score. All keys of an agent lie in one slot of a cluster. Each script is one round trip and
runs as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from memoranda.store import Finding
from memoranda.store.backend import left_out
from memoranda_redis._connection import Script
from memoranda_redis.episodic import (
    CorruptEntryError,
    EpisodicMemory,
    InvalidTimestampError,
    load_entry,
    read_entry,
)

_SWEPT_PER_STEP = 8
"""How many members of the index a read checks at its beginning, and how many at another place."""

# An entry starts with {"timestamp":"<32 characters>", followed by the member that holds its id.
_ID_AT = len('{"timestamp":"') + 32 + len('",') + 1

WRITE = Script(
    """
local index, prefix = KEYS[1], ARGV[1]

local function iso(micros)
  local seconds = math.floor(micros / 1000000)
  local day = math.floor(seconds / 86400)
  local clock = seconds - day * 86400
  -- Days since 1 March 0000, in eras of 400 years, give year, month and day.
  local days = day + 719468
  local era = math.floor(days / 146097)
  local rest = days - era * 146097
  local leaps = math.floor(rest / 1460) - math.floor(rest / 36524) + math.floor(rest / 146096)
  local years = math.floor((rest - leaps) / 365)
  local yearday = rest - (365 * years + math.floor(years / 4) - math.floor(years / 100))
  local march = math.floor((5 * yearday + 2) / 153)
  local month = march < 10 and march + 3 or march - 9
  local year = years + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%06d+00:00', year, month,
    yearday - math.floor((153 * march + 2) / 5) + 1, math.floor(clock / 3600), math.floor(clock / 60) % 60, clock % 60,
    micros - seconds * 1000000)
end

local written, longest = {}, 0
for first = 2, #ARGV, 4 do
  local micros, id, rest, ttl = tonumber(ARGV[first]), ARGV[first + 1], ARGV[first + 2], tonumber(ARGV[first + 3])
  local moment, key, found
  while true do
    moment = iso(micros)
    key = prefix .. moment
    found = redis.pcall('GET', key)
    -- A value that is no text belongs to another program and stays. An entry of the same id is this very write, whose
    -- answer was lost.
    if not found or type(found) == 'string' and string.sub(found, ID_AT, ID_AT - 1 + #id) == id then break end
    micros = micros + 1
  end
  if not found then
    redis.call('ZADD', index, string.format('%.6f', micros / 1000000), key)
    redis.call('SET', key, '{"timestamp":"' .. moment .. '",' .. id .. ',' .. rest .. '}', 'PX', ttl)
    if ttl > longest then longest = ttl end
  end
  written[#written + 1] = moment
end
if longest > 0 and redis.call('PTTL', index) < longest then
  redis.call('PEXPIRE', index, longest)
end
-- Every write checks one more of the oldest members than it adds, so that expired ones cannot pile up.
for _, key in ipairs(redis.call('ZRANGE', index, 0, #written)) do
  if redis.call('EXISTS', key) == 0 then redis.call('ZREM', index, key) end
end
return written
""".replace("ID_AT", str(_ID_AT))
)
"""Keys: the index. Arguments: the prefix, then time in microseconds, id, other members and TTL of each entry.

Returns the timestamp of each entry, which is the next free microsecond from the one asked for.
"""

READ = Script(
    """
local index, since, limit, place, apart = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == 'apart'
local answer, number, gone, seen = {}, 0, {}, 0
while number < limit do
  local wanted = math.min(limit - number, 500)
  local keys = redis.call('ZREVRANGEBYSCORE', index, '+inf', since, 'LIMIT', seen, wanted)
  if #keys == 0 then break end
  local page = {}
  for position, entry in ipairs(redis.call('MGET', unpack(keys))) do
    if entry then
      number = number + 1
      if apart then
        answer[#answer + 1] = keys[position]
        answer[#answer + 1] = entry
      else
        page[#page + 1] = entry
      end
    else
      gone[#gone + 1] = keys[position]
    end
  end
  if #page > 0 then
    page[#page + 1] = #page
    answer[#answer + 1] = '[' .. table.concat(page, ',') .. ']'
  end
  seen = seen + #keys
  if #keys < wanted then break end
end
local entries = #answer
for _, key in ipairs(gone) do
  -- A key that exists but holds no text belongs to another program.
  if redis.call('EXISTS', key) == 0 then redis.call('ZREM', index, key) else answer[#answer + 1] = key end
end

-- Members outside the window expire too: check the oldest while some of them have, then some others at random.
local function sweep(first)
  local keys = redis.call('ZRANGE', index, first, first + PER_STEP - 1)
  if #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys then return 0, #keys end
  local removed = 0
  for _, key in ipairs(keys) do
    if redis.call('EXISTS', key) == 0 then removed = removed + redis.call('ZREM', index, key) end
  end
  return removed, #keys
end
local first = 0
while true do
  local removed, looked = sweep(first)
  if removed == 0 then break end
  first = first + looked - removed
end
local rest = redis.call('ZCARD', index) - first - PER_STEP
if rest > 0 then sweep(first + PER_STEP + math.floor(place * rest)) end
answer[#answer + 1] = entries
return answer
""".replace("PER_STEP", str(_SWEPT_PER_STEP))
)
"""Keys: the index. Arguments: the earliest Unix time, the limit, a random number between 0 and 1, and how to answer.

Returns the entries that still live, newest first: as JSON lists, each of which ends with the number of its entries, or
with ``apart`` as keys and entries in turn. Then come the keys that hold no text, and last the number of parts before
these. A flat reply is read faster than one of lists. Members whose entry has expired leave the index.
"""

_LISTED_BY = "ShortTermMemoryManager.doctor()"

ALL = 2**53
"""A limit that means all; the largest that a Lua number holds exactly."""

_MOST_NAMED = 10

Read = Callable[[Sequence[Any]], Awaitable[Any]]
"""Runs the reading script with these arguments."""


async def recall(read: Read, agent_id: str, since: float, limit: int) -> list[EpisodicMemory]:
    """Return at most ``limit`` interactions since a Unix time, newest first.

    Unreadable entries do not count towards the limit. Raises InvalidTimestampError for an entry without a time. Whole
    pages are decoded at once, in about half the time of one entry after the other.
    """
    pages, odd = _divided(await read(_arguments(since, limit, "together")))
    for key in odd:
        left_out(CorruptEntryError(agent_id, _key_text(key), "it is not text"), _LISTED_BY)
    memories: list[EpisodicMemory] = []
    try:
        for page in pages:
            if memories:
                await asyncio.sleep(0)  # A page takes milliseconds, so let other tasks run.
            memories += _read_together(page, agent_id)
    except CorruptEntryError:
        return await _recall_apart(read, agent_id, since, limit)
    return memories


async def _recall_apart(read: Read, agent_id: str, since: float, limit: int) -> list[EpisodicMemory]:
    """Recall entry by entry, leaving out those that cannot be read."""
    asked = limit
    while True:
        entries, _ = _divided(await read(_arguments(since, asked, "apart")))
        memories, unreadable = [], []
        for key, text in _pairs(entries):
            try:
                memories.append(read_entry(text, agent_id, _key_text(key)))
            except InvalidTimestampError:
                raise
            except CorruptEntryError as error:
                unreadable.append(error)
        if len(memories) >= limit or len(memories) + len(unreadable) < asked:
            for corrupt in unreadable:
                left_out(corrupt, _LISTED_BY)
            return memories[:limit]
        asked = min(limit + len(unreadable), ALL)


async def examine_entries(read: Read, agent_id: str) -> Finding:
    """Return a finding that names the entries of an agent that cannot be read."""
    entries, odd = _divided(await read(_arguments(0.0, ALL, "apart")))
    unreadable = [_key_text(key) for key in odd]
    count = len(odd)
    for key, text in _pairs(entries):
        count += 1
        try:
            read_entry(text, agent_id, _key_text(key))
        except CorruptEntryError:
            unreadable.append(_key_text(key))
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


def _divided(reply: Sequence[Any]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the entries of a reply, and the keys that hold no text."""
    entries = reply[-1]
    return reply[:entries], reply[entries:-1]


def _read_together(page: bytes, agent_id: str) -> list[EpisodicMemory]:
    try:
        *entries, count = json.loads(page.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptEntryError(agent_id, "", "it is not JSON") from error
    if len(entries) != count:
        raise CorruptEntryError(agent_id, "", "it is more than one")
    return [load_entry(entry, agent_id) for entry in entries]


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _key_text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")
