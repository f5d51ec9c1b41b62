"""The scripts that write, hide, restore and remove.

Each runs as a whole, and refuses before it has written anything. Filters are JSON objects: see
:data:`memoranda_redis._reading_scripts.ScriptFilter`. A call whose answer may be lost has a token; repeated with the
same token, it returns the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memoranda.trust import TRUST_OF_TYPES, Trust
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
return {'found', row_of(item[1], whole(id)), origin}
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


def _table(values: Mapping[str, str | int]) -> str:
    """Return a Lua table with these values by name."""
    return f"{{{', '.join(f'{name} = {json.dumps(value)}' for name, value in values.items())}}}"


PUT = Script(
    SHARED
    + MOVING
    + f"""
local RANKS = {_table({trust.value: trust.rank for trust in Trust})}
local BY_TYPE = {_table({kind: trust.value for kind, trust in TRUST_OF_TYPES.items()})}
"""
    + """
local token, write = ARGV[1], cjson.decode(ARGV[2])
local limits, memo = limits_of(write), base .. 'done:' .. token
if write.memo then
  local before = redis.call('GET', memo)
  if before then return cjson.decode(before) end
end
sweep(write.now, 50)

local function split(text)
  local parts, from = {}, 1
  while true do
    local at = string.find(text, '\\0', from, true)
    if not at then
      parts[#parts + 1] = string.sub(text, from)
      return parts
    end
    parts[#parts + 1] = string.sub(text, from, at - 1)
    from = at + 1
  end
end

if write.expected then
  local last = last_added(write.expected) or ''
  if last ~= write.head then return {'head', last} end
end

local KEPT = {'v', 'm', 'h', 'x', 'u', 's', 't', 'a', 'n', 'o'}
local items, owners, new = {}, {}, 0

-- The trust that a stored item says itself; nil if it says none.
local function given_trust(key)
  return string.match(redis.call('HGET', key, 'j') or '', '^{"trust":"(%a+)"')
end

-- Lowers the trust of an item to that of the one which it replaces, unless it approves that version.
local function lower(item, version)
  local stored = given_trust(item.key) or BY_TYPE[redis.call('HGET', item.key, 'k') or ''] or 'agent'
  if item.approves ~= version and (RANKS[stored] or 0) < RANKS[item.trust] then
    item.body = string.gsub(item.body, '^{"trust":[^,]*', '{"trust":"' .. stored .. '"', 1)
  end
end

-- True if there is an item, even a damaged one: its id is taken.
local function there(found)
  for position = 1, #KEPT do
    if found[position] then return true end
  end
  return false
end

-- The item's number in the order of adding, which it keeps; nil if it has none.
local function number_of(found)
  return found[2] and #found[2] >= 48 and string.sub(found[2], 33, 48) or nil
end

-- True if the item has changed since Python compared it.
local function moved(seen, found)
  return seen and seen ~= (there(found) and '=' .. (found[10] or '') or '')
end

for position = 3, #ARGV, 4 do
  local part = split(ARGV[position])
  local item = {
    id = part[1], created = part[2], kind = part[3], status = part[4], archived = part[5],
    expected = tonumber(part[6]),
    scope = {given(part[7]), given(part[8]), given(part[9]), given(part[10]), part[11] ~= '' and part[11] or nil},
    hidden = part[12] == '1', ends = part[13], life = part[14], ttl = part[15],
    trust = part[16], approves = part[17],
    body = ARGV[position + 1], content = ARGV[position + 2], folded = ARGV[position + 3],
  }
  item.key = item_key(item.id)
  item.found = redis.call('HMGET', item.key, unpack(KEPT))
  if over(item.found[4], write.now) then
    drop(item.found[4])
    record_changes()
    item.found = redis.call('HMGET', item.key, unpack(KEPT))
  end
  local found = item.found
  if found[10] == token then
    -- This very write was done before, and its answer was lost.
    local versions = {'done', 0}
    for other = 3, #ARGV, 4 do
      local key = item_key(split(ARGV[other])[1])
      versions[#versions + 1] = (redis.call('HGET', key, 'v') or '0') .. ' ' .. (given_trust(key) or '')
    end
    return versions
  end
  local number = #items + 1
  if moved(write.seen and write.seen[item.id], found) then return {'again'} end
  local version = found[1] and not found[3] and tonumber(found[1]) or nil
  local before = owners[item.id]
  if (write.fresh or write.new and write.new[item.id]) and (before or there(found)) then
    -- Not even the version of another user's item is revealed.
    local held = before or scope_of(found, 5)
    if held[1] ~= item.scope[1] or not within(limits, held) then return {'taken', number} end
    return {'changed', number, before and 1 or tonumber(found[1]) or -1}
  end
  local stale = item.expected and (version or 0) ~= item.expected
  check_indexes('live', item.scope)
  if item.hidden then check_indexes('hidden', item.scope) end
  if there(found) then
    local scope = scope_of(found, 5)
    check_indexes(found[3] and 'hidden' or 'live', scope)
    -- A comparison of versions ignores hidden items, but their id is still taken.
    if stale and found[3] then return {'changed', number, -1} end
    if scope[1] ~= item.scope[1] or not within(limits, scope) then return {'taken', number} end
  end
  if before and (before[1] ~= item.scope[1] or not within(limits, before)) then return {'taken', number} end
  if stale then return {'changed', number, version or -1} end
  if before then
    item.again = true
  elseif not number_of(found) then
    new = new + 1
  end
  owners[item.id] = item.scope
  items[number] = item
end
for _, id in ipairs(write.deletes or {}) do
  local found = redis.call('HMGET', item_key(id), unpack(KEPT))
  if moved(write.seen and write.seen[id], found) then return {'again'} end
  check_indexes('live', scope_of(found, 5))
  check_indexes('hidden', scope_of(found, 5))
end

local removed = 0
local alive = {now = write.now, over = false}
for _, id in ipairs(write.deletes or {}) do
  if not (write.outside and write.outside[id])
    and (move(write.purge and 'purge' or 'hide', id, 'live', alive, limits, '')
      or write.purge and move('purge', id, 'hidden', alive, limits, '')) then
    removed = removed + 1
  end
end

local answer = {'done', removed}
local added = new > 0 and redis.call('INCRBY', base .. 'added', new) - new or 0
for _, item in ipairs(items) do
  local key = item.key
  local found = item.again and redis.call('HMGET', key, unpack(KEPT)) or item.found
  local version, number = (tonumber(found[1] or 0) or 0) + 1, number_of(found)
  if there(found) then
    leave(found[3] and 'hidden' or 'live', scope_of(found, 5), found[2] or '')
    if found[4] then redis.call('ZREM', base .. 'ends', found[4]) end
    if write.keep and number then item.created = string.sub(found[2], 1, 32) end
    lower(item, found[1])
    redis.call('DEL', key)
  end
  if not number then
    added = added + 1
    number = string.format('%016d', added)
  end
  local member = item.created .. number .. item.id
  local fields = {
    'c', item.content, 'j', item.body, 'v', version, 'm', member, 'k', item.kind, 'w', item.status, 'o', token
  }
  local function field(name, value)
    if value and value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  for position, name in ipairs(FIELDS) do
    if item.scope[position] then
      fields[#fields + 1] = name
      fields[#fields + 1] = item.scope[position]
    end
  end
  field('f', item.folded)
  field('r', item.archived)
  field('h', item.hidden and '1')
  field('l', item.ttl)
  redis.call('HSET', key, unpack(fields))
  if item.ends ~= '' then
    set_end(item.id, key, member, item.scope, item.ends, item.life)
  end
  enter(item.hidden and 'hidden' or 'live', item.scope, member)
  note(member)
  answer[#answer + 1] = version .. ' ' .. (string.match(item.body, '^{"trust":"(%a+)"') or '')
end
record_changes()
if write.memo then redis.call('SET', memo, cjson.encode(answer), 'PX', 60000) end
return answer
"""
)
"""Keys: the base. Arguments: the write's token, the write as JSON, then header, body, content and folded content of
each item. Returns ``done``, how many were deleted, and each item's version and the trust that it says, with a space
between. Or, with nothing written:

* ``taken`` and the item's position;
* ``changed``, the item's position, and the version that was found (-1 for none);
* ``head`` and the id of the conversation's last item;
* ``again`` if an item has changed since Python compared it.
"""

TOUCH = Script(
    SHARED
    + """
local now, touched, again = ARGV[1], 0, {}
for position = 2, #ARGV, 5 do
  local id, version = ARGV[position], ARGV[position + 1]
  local item, hidden = watched(id), redis.pcall('HEXISTS', item_key(id), 'h')
  if item and item[1] and hidden == 0 and not over(item[6], now) then
    if item[2] == version then
      local scope, key = scope_of(item, 7), item_key(id)
      set_end(id, key, item[1], scope, ARGV[position + 2], ARGV[position + 3])
      redis.call('HDEL', key, 'l')
      if ARGV[position + 4] ~= '' then redis.call('HSET', key, 'l', ARGV[position + 4]) end
      note(item[1])
      touched = touched + 1
    else
      again[#again + 1] = id
    end
  end
end
record_changes()
return {touched, unpack(again)}
"""
)
"""Keys: the base. Arguments: the present time, then for each item its id, the version that was read, its new expiry,
the milliseconds until then, and its lifetime, the last three empty for none. Returns how many were touched, and the ids
of items that changed meanwhile."""
