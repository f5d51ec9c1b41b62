"""Filters as scripts take them, where conditions that no script compares are left to Python; the scripts that read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import namespace_key
from memoranda.store.backend import (
    Archived,
    Below,
    Condition,
    Contains,
    Created,
    Expiry,
    FieldEquals,
    Filter,
    InScope,
    OfUsers,
    Value,
)
from memoranda.windowing import STAYING
from memoranda_redis._connection import Script
from memoranda_redis._lua import SHARED

ScriptFilter = dict[str, Any]
"""The conditions that a script compares, by name. Absent means any.

The names are the ids of a scope, ``place`` (a namespace's key), ``memory_type``, ``types`` (one of them), ``unlike``
(other types), ``status``, ``archived``, ``users`` (how owners begin whose items do not pass), ``folded`` (contained in
the content), ``since`` and ``before``, ``now`` with ``over`` (True for items that have expired by then), and
``missing`` (positions of ids that an item must not have).
"""


_LISTS = ("missing", "unlike")
"""The names whose conditions are all compared; of any other, a script compares one."""


def script_filter(wanted: Filter, *, content: bool = True) -> tuple[ScriptFilter, bool]:
    """Return a filter for a script, and True if it leaves conditions that only Python can compare.

    Without ``content`` the script does not compare the content.
    """
    asked: ScriptFilter = {}
    incomplete = False
    for condition in wanted.conditions:
        parts = dict(_parts(condition))
        differing = any(asked.get(name, part) != part for name, part in parts.items() if name not in _LISTS)
        if not parts or differing or ("folded" in parts and not content):
            incomplete = True
            continue
        asked |= {name: [*asked.get(name, []), *part] if name in _LISTS else part for name, part in parts.items()}
    return asked, incomplete


def scope_conditions(metadata: MemoryMetadata | None) -> ScriptFilter:
    """Return a scope for a script; only Python can compare its ``extra``."""
    return script_filter(Filter(metadata=metadata, archived=None))[0]


def ids_of(wanted: Filter) -> list[str] | None:
    """Return the ids that a filter names, one of which an item must have; None if it names none."""
    for condition in wanted.conditions:
        if type(condition) is FieldEquals and condition.field == "id":
            return [condition.text]
        if type(condition) is Value and condition.name == "id" and not condition.in_extra:
            named = {"$eq": [condition.value], "$in": condition.value}.get(condition.operator)
            if named is not None:
                return list(dict.fromkeys(each for each in named if isinstance(each, str)))
    return None


def _parts(condition: Condition) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a condition; nothing for one that a script cannot compare."""
    if type(condition) is InScope:
        yield condition.field, condition.value
    elif type(condition) is Below:
        yield "place", namespace_key(condition.place)
    elif type(condition) is FieldEquals and condition.field in ("memory_type", "status"):
        yield condition.field, condition.text
    elif type(condition) is OfUsers:
        yield "users", condition.prefix
    elif type(condition) is Archived:
        yield "archived", condition.archived
    elif type(condition) is Contains:
        yield "folded", condition.folded
    elif type(condition) is Created:
        if condition.since is not None:
            yield "since", condition.since
        if condition.until is not None:
            yield "before", condition.until
    elif type(condition) is Expiry:
        yield "now", condition.now
        yield "over", condition.expired
    elif type(condition) is Value and not condition.in_extra:
        yield from _of_value(condition)


def _of_value(condition: Value) -> Iterator[tuple[str, Any]]:
    if condition.name in SCOPE_FIELDS and condition.operator == "$eq" and condition.value is None:
        yield "missing", [SCOPE_FIELDS.index(condition.name) + 1]
    elif condition.name == "memory_type" and condition.operator == "$ne" and isinstance(condition.value, str):
        yield "unlike", [condition.value]
    elif condition.name == "memory_type" and condition.operator == "$eq" and isinstance(condition.value, str):
        yield "memory_type", condition.value
    elif condition.name == "memory_type" and condition.operator == "$in" and _are_texts(condition.value):
        yield "types", condition.value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_STAYING = ", ".join(f"{kind} = true" for kind in STAYING)

FIND = Script(
    SHARED
    + f"local STAYING = {{{_STAYING}}}"
    + """
local family, by, newest, asked = ARGV[1], ARGV[2], ARGV[3] == 'newest', cjson.decode(ARGV[4])
local limit, cursor, effort, limits = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), limits_of(asked)
local left = tonumber(ARGV[8] or limit)
if not asked.over then sweep(asked.now, 1000) end

local index = shortest(by == 'added' and family == 'live' and 'said' or family, limits, asked)
if not index then return {''} end
local rows, seen = {''}, 0
while seen < effort do
  local members, cursors = page(index, by, newest, asked, cursor, 100)
  for position, member in ipairs(members) do
    local id = string.sub(member, 49)
    -- Behind the page, no more than the type is read of most items.
    local sought = #rows <= left or STAYING[redis.pcall('HGET', item_key(id), 'k')]
    local item = sought and whole(id)
    if not sought then
      -- No window shows it.
    elseif not item then
      rows[#rows + 1] = member
    elseif not item[1] then
      -- The key holds something, but no item: return its member alone.
      if item[2] or item[13] or item[14] then rows[#rows + 1] = member end
    -- An item that Redis dropped may have been added again, under another member.
    elseif item[1] == member and passes(asked, limits, item, member) then
      local content = asked.folded and (redis.call('HGET', item_key(id), 'f') or string.lower(item[14] or ''))
      if not content or string.find(content, asked.folded, 1, true) then rows[#rows + 1] = row_of(member, item) end
    end
    if #rows > limit then
      rows[1] = cursors[position]
      return rows
    end
  end
  if #members < 100 then return rows end
  seen = seen + #members
  cursor = cursors[#cursors]
end
rows[1] = cursor
return rows
"""
)
"""Keys: the base. Arguments: the family, the order (``created``, or ``added`` for live items), ``newest`` or ``oldest``
first, the filter, the limit, the cursor, how many items to check, and after how many rows only those of items follow
that stay in every window; without it, any follow. Returns the next cursor (empty at the end), then the rows; a row is
the member alone where the key holds no item.
"""

ROWS = Script(
    SHARED
    + """
local rows = {}
for _, id in ipairs(ARGV) do
  local item = whole(id)
  if item and item[1] and redis.call('HEXISTS', item_key(id), 'h') == 0 then rows[#rows + 1] = row_of(item[1], item) end
end
return rows
"""
)
"""Keys: the base. Arguments: ids. Returns the rows of those that exist and are not hidden."""

COUNT = Script(
    SHARED
    + """
local family, asked, cursor, effort = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local limits, complete = limits_of(asked), asked.over or sweep(asked.now, 10000)
local index, size = shortest(family, limits, asked)
if not index then return {0, ''} end
local conditions = asked.missing and 2 or 0
for position = 1, 5 do
  if limits[position] then conditions = conditions + 1 end
end
for _, name in ipairs({'memory_type', 'types', 'unlike', 'users', 'status', 'over', 'folded'}) do
  if asked[name] then conditions = 2 end
end
if conditions < 2 and asked.archived == nil and complete then
  if not asked.since and not asked.before then return {size, ''} end
  local low = asked.since and '[' .. asked.since or '-'
  return {redis.call('ZLEXCOUNT', index, low, asked.before and '(' .. asked.before or '+'), ''}
end
local count, seen = 0, 0
while seen < effort do
  local members = page(index, 'created', false, asked, cursor, 500)
  for _, member in ipairs(members) do
    local item = watched(string.sub(member, 49))
    if item and item[1] == member and passes(asked, limits, item, member) then count = count + 1 end
  end
  if #members < 500 then return {count, ''} end
  seen = seen + #members
  cursor = members[#members]
end
return {count, cursor}
"""
)
"""Keys: the base. Arguments: the family, the filter, the cursor, and how many items to check. Returns how many of them
match, and the next cursor (empty at the end)."""

OWNERS = Script(
    SHARED
    + """
local position, asked, cursor, most = tonumber(ARGV[1]), cjson.decode(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local limits = limits_of(asked)
sweep(asked.now, 1000)
local name = NAMES[position] or 'place'
local owners = {''}
local function list(value, count, first, last)
  for _, part in ipairs({value, count, first, last}) do owners[#owners + 1] = part end
end

local others = false
for other = 1, 5 do
  if limits[other] and other ~= position then others = true end
end
for _, condition in ipairs({'memory_type', 'types', 'unlike', 'users', 'status', 'missing', 'since', 'before'}) do
  if asked[condition] then others = true end
end
if not others then
  -- Nothing else is asked for: the lists of values and the ends of their indexes suffice.
  local low, high = '-', '+'
  if limits[position] then
    low, high = '[' .. limits[position], '[' .. limits[position] .. (position == 5 and '\\255' or '')
  end
  local values = redis.call('ZRANGEBYLEX', base .. 'values:' .. name,
    cursor == '' and low or '(' .. cursor, high, 'LIMIT', 0, most)
  for _, value in ipairs(values) do
    local index = base .. 'live:' .. name .. ':' .. value
    local first = redis.call('ZRANGE', index, 0, 0)[1]
    if first then
      local final = redis.call('ZREVRANGE', index, 0, 0)[1]
      list(value, redis.call('ZCARD', index), string.sub(first, 1, 32), string.sub(final, 1, 32))
    end
  end
  owners[1] = #values < most and '' or values[#values]
  return owners
end

local index = shortest('live', limits, asked)
if not index then return owners end
local members = page(index, 'created', false, asked, cursor, most)
local found, order = {}, {}
for _, member in ipairs(members) do
  local item = watched(string.sub(member, 49))
  local value = item and item[1] == member and item[6 + position]
  if value and passes(asked, limits, item, member) then
    if not found[value] then
      found[value] = {0, string.sub(member, 1, 32)}
      order[#order + 1] = value
    end
    found[value][1] = found[value][1] + 1
    found[value][3] = string.sub(member, 1, 32)
  end
end
for _, value in ipairs(order) do list(value, unpack(found[value])) end
owners[1] = #members < most and '' or members[#members]
return owners
"""
)
"""Keys: the base. Arguments: the position of the field in a scope, the filter, the cursor, and how many to check.
Returns the next cursor (empty at the end), then value, count, first and last time of each owner. The counts of an owner
that comes again are to be added."""

SOONEST = Script(
    """
local soonest = redis.call('ZRANGE', KEYS[1] .. 'ends', 0, 0)[1]
return soonest and string.sub(soonest, 1, 32) or ''
"""
)
"""Keys: the base. Returns when the next item expires, or an empty text."""

CHANGED = Script(
    SHARED
    + """
local since, before, now, writes = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
sweep(now ~= '' and now or nil, 1000)
local log = base .. 'changes'
local newest = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if not newest then
  -- Data of before there was a log, or none at all.
  return {writes and redis.call('XADD', log, '*', 'n', '') or '', 'all'}
end
if since == '' then return {newest[1], 'all'} end
local found = {newest[1], 'some'}
if since ~= newest[1] then
  local entries = redis.call('XRANGE', log, since, '+')
  -- Without the last entry that was seen, there is no telling what else is missing.
  if not entries[1] or entries[1][1] ~= since then return {newest[1], 'all'} end
  for position = 2, #entries do
    found[#found + 1] = entries[position][2][2]
  end
end
if now > before then
  for _, ends in ipairs(redis.call('ZRANGEBYLEX', base .. 'ends', '(' .. before .. '\\255', '[' .. now .. '\\255')) do
    local entry = expiring(ends)
    if entry then note(entry.member) end
  end
  for _, range in ipairs(changed) do
    found[#found + 1] = string.format('%.0f %.0f', range[1], range[2])
  end
end
return found
"""
)
"""Keys: the base. Arguments: the last entry of the log that was seen, or nothing; the time of that; the present; and
whether a log may be made. Returns the last entry of the log, then ``all`` if it does not tell what has changed since.
Otherwise ``some`` and texts of numbers: the first and the last one of each range of items that changed or expired."""

NUMBERED = Script(
    SHARED
    + """
local asked, limit = cjson.decode(ARGV[1]), tonumber(ARGV[2])
local limits, rows = limits_of(asked), {'', ''}
local index = shortest('said', limits, asked)
if not index then return rows end
local seen = 0
for position = 3, #ARGV, 2 do
  local members = redis.call('ZRANGEBYSCORE', index, ARGV[position], ARGV[position + 1], 'LIMIT', 0, limit + 1 - seen)
  for _, member in ipairs(members) do
    if seen == limit then return {position - 3, string.sub(member, 33, 48), unpack(rows, 3)} end
    seen = seen + 1
    local id = string.sub(member, 49)
    local item = whole(id)
    if item and item[1] == member and passes(asked, limits, item, member) then
      rows[#rows + 1] = row_of(member, item)
    end
  end
end
return rows
"""
)
"""Keys: the base. Arguments: the filter, how many items to check, then the first and the last number of each range, in
the order of adding. Returns where to go on, as the position of a range and a number (both empty at the end), then the
rows of the items that pass."""
