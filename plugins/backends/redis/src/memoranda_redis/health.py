"""The checks of ``memoranda doctor`` on a Redis store."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memoranda.errors import CorruptStoreError, StoreError
from memoranda.items import MemoryItem
from memoranda.store import Finding
from memoranda_redis._connection import Run, Script
from memoranda_redis._lua import SHARED
from memoranda_redis._reading_scripts import FIND
from memoranda_redis._records import id_of_member, read_stored

OLDEST = (6, 2)
_PAGE = 1000
_MOST_NAMED = 10

# In a cluster, a script runs on the node that holds the store, while a plain INFO may not.
_INFO = Script("return redis.call('INFO', ARGV[1])")

_SURVEY = Script(
    SHARED
    + """
local cursor, pattern, repair = ARGV[1], ARGV[2], ARGV[3] == '1'
local FAMILIES = {live = true, said = true, hidden = true, values = true}
local answer = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
local indexes, missing, odd = {}, 0, {}
for _, key in ipairs(answer[2]) do
  local name = string.sub(key, #base + 1)
  if string.sub(name, 1, 2) == 'i:' then
    local item = fields_of(key, 'm', 'h', 'u', 's', 't', 'a', 'n')
    if item and item[1] then
      local lost, scope, family = false, scope_of(item, 3), item[2] and 'hidden' or 'live'
      local function look(index, member)
        if not redis.pcall('ZSCORE', index, member or item[1]) then lost = true end
      end
      each_index(family, scope, look)
      if family == 'live' then
        each_index('said', scope, look)
        each_value(scope, look)
      end
      if lost then
        missing = missing + 1
        if repair then
          enter(family, scope, item[1])
          note(item[1])
        end
      end
    end
  elseif FAMILIES[string.match(name, '^[^:]*')] then
    local list = redis.call('TYPE', key).ok == 'zset' and indexes or odd
    list[#list + 1] = key
  end
end
record_changes()
return {answer[1], missing, indexes, odd}
"""
)
"""Keys: the base. Arguments: the cursor, the pattern of all keys, whether to repair. Returns the next cursor, how many
items were missing from an index, the indexes found, and keys of indexes that hold something else.
"""

_PRUNE = Script(
    SHARED
    + """
local index, cursor, most, repair = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local hidden = string.sub(index, #base + 1, #base + 6) == 'hidden'
local values = string.match(string.sub(index, #base + 1), '^values:(.*)')
if string.sub(index, #base + 1, #base + 4) == 'said' then
  -- Its members are not in the order of their text: all of them are looked at by the number of their adding.
  local members, cursors = page(index, 'added', false, {}, cursor, most)
  local stale = 0
  for _, member in ipairs(members) do
    local item = fields_of(item_key(string.sub(member, 49)), 'm', 'h')
    if not item or item[1] ~= member or item[2] then
      stale = stale + 1
      if repair then
        redis.call('ZREM', index, member)
        note(member)
      end
    end
  end
  record_changes()
  return {#members < most and '' or cursors[#cursors], stale}
end
local members = redis.call('ZRANGEBYLEX', index, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, most)
local stale = 0
for _, member in ipairs(members) do
  local item = not values and fields_of(item_key(string.sub(member, 49)), 'm', 'h')
  local gone
  if values then
    gone = redis.call('EXISTS', base .. 'live:' .. values .. ':' .. member) == 0
  else
    gone = not item or item[1] ~= member or (item[2] and true or false) ~= hidden
  end
  if gone then
    stale = stale + 1
    if repair then
      redis.call('ZREM', index, member)
      if not values then note(member) end
    end
  end
end
record_changes()
return {#members < most and '' or members[#members], stale}
"""
)
"""Keys: the base. Arguments: the index, the cursor, how many members to check, whether to repair. Returns the next
cursor and how many members have no item.
"""


_RANKED = Finding(
    "ranked text",
    True,
    "has no index: the first search of a process reads every item of the user or session that it names",
)


async def examine(run: Run, base: str, types: Mapping[str, type[MemoryItem]], *, repair: bool) -> list[Finding]:
    """Check the server's settings, every item, and whether items and indexes agree.

    With ``repair``, the indexes are repaired first.
    """
    if repair:
        await _indexes(run, base, repair=True)
    return [*await _server(run), _RANKED, await _rows(run, types), await _indexes(run, base, repair=False)]


async def _rows(run: Run, types: Mapping[str, type[MemoryItem]]) -> Finding:
    damaged = []
    count = 0
    try:
        for family in ("live", "hidden"):
            cursor = b""
            while True:
                cursor, *rows = await run(FIND, [family, "created", "oldest", "{}", _PAGE, cursor, _PAGE])
                count += len(rows)
                for row in rows:
                    try:
                        read_stored(row, types)
                    except CorruptStoreError:
                        damaged.append(repr(id_of_member(row.split(b"\0", 1)[0])))
                if not cursor:
                    break
    except CorruptStoreError as error:
        return Finding("rows", False, str(error), "Look at the finding on the indexes.")
    if not damaged:
        return Finding("rows", True, f"all {count:,} can be read")
    named = ", ".join(damaged[:_MOST_NAMED]) + (", …" if len(damaged) > _MOST_NAMED else "")
    return Finding(
        "rows",
        False,
        f"{len(damaged):,} of {count:,} cannot be read: {named}",
        "Searches leave these items out. Replace each by adding an item of its id, or purge it.",
    )


async def _server(run: Run) -> list[Finding]:
    about: dict[str, str] = {}
    try:
        for section in ("server", "replication", "persistence", "memory"):
            lines = (await run(_INFO, [section])).decode().splitlines()
            about |= dict(line.split(":", 1) for line in lines if ":" in line)
    except StoreError:
        return [Finding("server", True, "it answers; its settings are hidden from this user")]
    return [_release(about), _persistence(about), _eviction(about)]


def _release(about: dict[str, str]) -> Finding:
    name = "Valkey" if "valkey_version" in about else "Redis"
    version = about.get("valkey_version") or about.get("redis_version", "0")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if about.get("role") == "slave":
        return Finding("server", False, f"{name} {version}, a replica", "Writes fail here; connect to the primary.")
    if numbers < OLDEST:
        return Finding("server", False, f"{name} {version}", f"Use release {'.'.join(map(str, OLDEST))} or later.")
    return Finding("server", True, f"{name} {version}")


def _persistence(about: dict[str, str]) -> Finding:
    """Report what a crash of the server would lose: without an append-only file, acknowledged memories."""
    if about.get("aof_enabled") != "1":
        return Finding(
            "persistence",
            False,
            "no append-only file: a crash of the server takes what came after the last snapshot, if there is any",
            "Set 'appendonly yes', unless losing these memories does no harm.",
        )
    if about.get("aof_last_write_status") != "ok":
        return Finding(
            "persistence", False, "the append-only file cannot be written", "Look at the server's disk and its log."
        )
    return Finding("persistence", True, "an append-only file; 'appendfsync always' makes every answer durable")


def _eviction(about: dict[str, str]) -> Finding:
    policy = about.get("maxmemory_policy", "noeviction")
    if about.get("maxmemory", "0") == "0" or not policy.startswith("allkeys"):
        return Finding("eviction", True, f"{policy}: nothing is dropped to make room but what expires anyway")
    return Finding(
        "eviction",
        False,
        f"{policy}: the server silently drops memories when it is full",
        "Set maxmemory-policy to noeviction, or to one that starts with 'volatile'.",
    )


async def _indexes(run: Run, base: str, *, repair: bool) -> Finding:
    pattern = re.sub(r"([\\*?\[\]^-])", r"\\\1", base) + "*"
    flag = "1" if repair else "0"
    # A scan may return a key more than once.
    indexes: set[bytes] = set()
    odd: set[bytes] = set()
    missing = stale = 0
    cursor = b"0"
    while True:
        cursor, lost, met, others = await run(_SURVEY, [cursor, pattern, flag])
        missing += lost
        indexes.update(met)
        odd.update(others)
        if cursor == b"0":
            break
    # Indexes before values: removing a stale index member can leave a value without items.
    for index in sorted(indexes):
        place = b""
        while True:
            place, wrong = await run(_PRUNE, [index, place, _PAGE, flag])
            stale += wrong
            if not place:
                break
    if odd:
        named = ", ".join(sorted(repr(key.decode(errors="backslashreplace")) for key in odd))
        return Finding(
            "indexes",
            False,
            f"the keys of these indexes hold something else: {named}",
            "Find out which program wrote them and delete them; then run 'memoranda doctor --repair'.",
        )
    if not missing and not stale:
        return Finding("indexes", True, f"{len(indexes):,} indexes agree with the items")
    return Finding(
        "indexes",
        False,
        f"{missing:,} items are missing from an index, and {stale:,} index members have no item",
        "Run 'memoranda doctor --repair'.",
    )
