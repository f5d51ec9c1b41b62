"""How the data of an earlier release becomes that of this one: page by page, from the start again if cut off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from memoranda.items import utc_text
from memoranda_redis._connection import Script
from memoranda_redis._lua import SHARED

Run = Callable[[Script, Sequence[Any]], Awaitable[Any]]

_PAGE = 500

OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
redis.call('SET', KEYS[1] .. 'schema', ARGV[1])
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release. Returns the one that the data has."""

_REINDEX = Script(
    SHARED
    + """
local cursor, most = ARGV[1], tonumber(ARGV[2])
local members = page(base .. 'live', 'created', false, {}, cursor, most)
for _, member in ipairs(members) do
  local item = watched(string.sub(member, 49))
  if item and item[1] == member then enter('live', scope_of(item, 7), member) end
end
return #members < most and '' or members[#members]
"""
)
"""Keys: the base. Arguments: where to go on, and how many items to look at. Puts them into the indexes that they are
missing from; returns where to go on (nothing at the end)."""

_MORTAL = Script("return redis.call('ZRANGE', KEYS[1] .. 'ttl', 0, ARGV[1], 'WITHSCORES')")
"""Keys: the base. Arguments: how many at most. Returns what expires as schema 1 has it, with milliseconds."""

_SET_ENDS = Script(
    SHARED
    + """
for position = 1, #ARGV, 2 do
  local old, ends = ARGV[position], ARGV[position + 1]
  local entry = expiring(string.rep(' ', 32) .. old)
  if entry then
    local key = item_key(entry.id)
    if redis.pcall('HGET', key, 'x') == old then
      redis.call('HSET', key, 'x', ends .. old)
      redis.call('ZADD', base .. 'ends', 0, ends .. old)
    else
      leave('live', entry.scope, entry.member)
      leave('hidden', entry.scope, entry.member)
    end
  end
  redis.call('ZREM', base .. 'ttl', old)
end
"""
)
"""Keys: the base. Arguments: members of what expires in schema 1, each with the time as this release writes it."""

_DONE = Script("redis.call('SET', KEYS[1] .. 'schema', ARGV[1])")
"""Keys: the base. Arguments: the schema version that the data has now."""


async def migrate(run: Run, schema: int) -> None:
    """Bring the data of schema 1 along: indexes by the order of adding, lists of values, ends in the items."""
    while mortal := await run(_MORTAL, [_PAGE]):
        arguments: list[Any] = []
        for member, score in zip(mortal[::2], mortal[1::2], strict=True):
            arguments += [member, utc_text(datetime.fromtimestamp(float(score) / 1000, UTC))]
        await run(_SET_ENDS, arguments)
    cursor = b""
    while True:
        cursor = await run(_REINDEX, [cursor, _PAGE])
        if not cursor:
            break
    await run(_DONE, [schema])
