"""The scripts that hide, restore and remove.

Each runs as a whole, and refuses before it has written anything. Filters are JSON objects: see
:mod:`memoranda_redis._filters`. A call whose answer may be lost has a token; repeated with the same token, it returns
the same answer.
"""

from __future__ import annotations

from memoranda_redis._connection import Script
from memoranda_redis._lua import MOVING, SHARED

TAKE = Script(
    SHARED
    + MOVING
    + """
local memo, asked = base .. 'done:' .. ARGV[1], cjson.decode(ARGV[2])
local action, candidate, written = ARGV[3], ARGV[4], ARGV[5]
if candidate ~= '' and redis.call('GET', memo) then return {'done'} end
sweep(asked.now, 1000)
local id, item = last_added(asked)
if not id then return {'none'} end
local origin = redis.call('HGET', item_key(id), 'o') or ''
if id == candidate and origin == written then
  if move(action, id, 'live', asked, limits_of(asked), '') then
    record_changes()
    redis.call('SET', memo, '1', 'PX', 60000)
    return {'done'}
  end
  return {'none'}
end
return {'found', row_of(item[1], item, fields_of(item_key(id), 'l', 'j', 'c')), origin}
"""
)
"""Keys: the base. Arguments: the call's token, the filter, ``hide`` or ``purge``, and the id and the origin of the item
that the caller has read, or nothing. Returns ``done`` if it was still the last one and has been taken; else ``found``,
the present last one and its origin; or ``none``."""

_MEMO = """
-- A repeated call gets the answer that was lost.
local memo = base .. 'done:' .. ARGV[1]
local before = redis.call('GET', memo)
if before then return cjson.decode(before) end
local action, family, asked = ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local limits = limits_of(asked)
if not asked.over then sweep(asked.now, 1000) end
local function remember(count, cursor)
  record_changes()
  if count > 0 then redis.call('SET', memo, cjson.encode({count, cursor}), 'PX', 60000) end
  return {count, cursor}
end
"""

MOVE_ALL = Script(
    SHARED
    + MOVING
    + _MEMO
    + """
local cursor, most = ARGV[5], tonumber(ARGV[6])
local index = shortest(family, limits, asked)
if not index then return remember(0, '') end
local members = page(index, 'created', false, asked, cursor, most)
local count = 0
for _, member in ipairs(members) do
  if move(action, string.sub(member, 49), family, asked, limits, '', member) then count = count + 1 end
end
return remember(count, #members < most and '' or members[#members])
"""
)
"""Keys: the base. Arguments: the call's token, ``hide``, ``restore`` or ``purge``, the family, the filter, the cursor,
and how many items to check. Returns how many were moved, and the next cursor (empty at the end).
"""

MOVE_SOME = Script(
    SHARED
    + MOVING
    + _MEMO
    + """
local count = 0
for position = 5, #ARGV, 2 do
  if move(action, ARGV[position], family, asked, limits, ARGV[position + 1]) then count = count + 1 end
end
return remember(count, '')
"""
)
"""Keys: the base. Arguments: as for MOVE_ALL up to the filter, then ids, each with its expected version, or empty."""

SWEEP = Script(
    SHARED
    + """
local asked, cursor, most = cjson.decode(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local limits, count = limits_of(asked), 0
local from, to = cursor == '' and '-' or '(' .. cursor, '[' .. asked.now .. '\\255'
local due = redis.call('ZRANGEBYLEX', base .. 'ends', from, to, 'LIMIT', 0, most)
for _, ends in ipairs(due) do
  local entry = expiring(ends)
  if not entry or within(limits, entry.scope) then
    if drop(ends) then count = count + 1 end
  end
end
record_changes()
return {count, #due < most and '' or due[#due]}
"""
)
"""Keys: the base. Arguments: the filter, the cursor, and how many to check. Removes expired items; returns how
many, and the next cursor (empty at the end)."""
