"""The scripts of the store. Each runs as a whole; what it refuses, it refuses before it has written anything.

Filters are a JSON object: see :mod:`memoranda_redis._filters`. A write whose answer may be lost has a token: asked
again with the same one, it says again what it did.
"""

from __future__ import annotations

from memoranda_redis._connection import Script
from memoranda_redis._lua import MOVING, SHARED

PUT = Script(
    SHARED
    + MOVING
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

-- Whether there is an item, be it damaged: its id is taken.
local function there(found)
  for position = 1, #KEPT do
    if found[position] then return true end
  end
  return false
end

-- The number of its adding, which an item keeps; nil for one that has none.
local function number_of(found)
  return found[2] and #found[2] >= 48 and string.sub(found[2], 33, 48) or nil
end

-- Whether what Python has compared is not what is there any more.
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
    body = ARGV[position + 1], content = ARGV[position + 2], folded = ARGV[position + 3],
  }
  item.key = item_key(item.id)
  item.found = redis.call('HMGET', item.key, unpack(KEPT))
  if over(item.found[4], write.now) then
    drop(item.found[4])
    mark(write.now)
    item.found = redis.call('HMGET', item.key, unpack(KEPT))
  end
  local found = item.found
  if found[10] == token then
    -- This very write was done before and its answer lost.
    local versions = {'done', 0}
    for other = 3, #ARGV, 4 do
      versions[#versions + 1] = redis.call('HGET', item_key(split(ARGV[other])[1]), 'v') or '0'
    end
    return versions
  end
  local number = #items + 1
  if moved(write.seen and write.seen[item.id], found) then return {'again'} end
  local version = found[1] and not found[3] and tonumber(found[1]) or nil
  local before = owners[item.id]
  if write.fresh and (before or there(found)) then
    return {'changed', number, before and 1 or tonumber(found[1]) or -1}
  end
  local stale = item.expected and (version or 0) ~= item.expected
  check_indexes('live', item.scope)
  if item.hidden then check_indexes('hidden', item.scope) end
  if there(found) then
    local scope = scope_of(found, 5)
    check_indexes(found[3] and 'hidden' or 'live', scope)
    -- Hidden items are nobody's business for a comparison of versions, but their id is still taken.
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
    mark(write.now)
  end
  enter(item.hidden and 'hidden' or 'live', item.scope, member)
  answer[#answer + 1] = version
end
if write.memo then redis.call('SET', memo, cjson.encode(answer), 'PX', 60000) end
return answer
"""
)
"""Keys: the base. Arguments: the write's token, the write as JSON, then header, body, content and folded content of
each item. Returns ``done``, how many were deleted, and the versions; or, with nothing written, ``taken`` or
``changed``, the item's position and, for the latter, the version that was found (-1 for none); ``head`` and the id with
which the conversation ends; ``again`` where something changed that Python has compared.
"""

FIND = Script(
    SHARED
    + """
local family, by, newest, asked = ARGV[1], ARGV[2], ARGV[3] == 'newest', cjson.decode(ARGV[4])
local limit, cursor, effort, limits = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), limits_of(asked)
if not asked.over then sweep(asked.now, 1000) end

local index = shortest(by == 'added' and family == 'live' and 'said' or family, limits, asked)
if not index then return {''} end
local rows, seen = {''}, 0
while seen < effort do
  local members, cursors = page(index, by, newest, asked, cursor, 100)
  for position, member in ipairs(members) do
    local id = string.sub(member, 49)
    local item = watched(id)
    if not item then
      rows[#rows + 1] = member
    elseif not item[1] then
      -- There is something, but no item: a row that says only where.
      local rest = fields_of(item_key(id), 'j', 'v', 'c')
      if rest[1] or rest[2] or rest[3] then rows[#rows + 1] = member end
    -- A member whose item Redis dropped may name an item that was added again, and is a member by another name.
    elseif item[1] == member and passes(asked, limits, item, member) then
      local rest = fields_of(item_key(id), 'l', 'j', 'c', 'f')
      if not asked.folded or string.find(rest[4] or string.lower(rest[3] or ''), asked.folded, 1, true) then
        rows[#rows + 1] = row_of(member, item, rest)
      end
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
"""Keys: the base. Arguments: the family, the order (``created``, or of live ones ``added``), ``newest`` or ``oldest``
first, the filter, the limit, where to go on, and how many items to look at. Returns where to go on (nothing at the
end), then the rows; the member alone where there is something that is no item.
"""

ROWS = Script(
    SHARED
    + """
local rows = {}
for _, id in ipairs(ARGV) do
  local item = watched(id)
  local rest = item and fields_of(item_key(id), 'l', 'j', 'c', 'h')
  if item and item[1] and not rest[4] then rows[#rows + 1] = row_of(item[1], item, rest) end
end
return rows
"""
)
"""Keys: the base. Arguments: ids. Returns the rows of those that are there and not hidden."""

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
for _, name in ipairs({'memory_type', 'unlike', 'status', 'over', 'folded'}) do
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
"""Keys: the base. Arguments: the family, the filter, where to go on, and how many items to look at. Returns how many
items there are up to where to go on (nothing at the end)."""

OWNERS = Script(
    SHARED
    + """
local position, asked, cursor, most = tonumber(ARGV[1]), cjson.decode(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local limits = limits_of(asked)
local name = NAMES[position] or 'place'
local owners = {''}
local function list(value, count, first, last)
  for _, part in ipairs({value, count, first, last}) do owners[#owners + 1] = part end
end

local others = false
for other = 1, 5 do
  if limits[other] and other ~= position then others = true end
end
if not others then
  -- Nobody else's are asked for: the lists of values, and the ends of their indexes, say everything.
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
"""Keys: the base. Arguments: the position of the field in a scope, the filter, where to go on, and how many to look at.
Returns where to go on (nothing at the end), then value, count, first and last time of each owner; one that comes again
is to be added up."""

TOUCH = Script(
    SHARED
    + """
local now, touched, again = ARGV[1], 0, {}
mark(now)
for position = 2, #ARGV, 5 do
  local id, version = ARGV[position], ARGV[position + 1]
  local item, hidden = watched(id), redis.pcall('HEXISTS', item_key(id), 'h')
  if item and item[1] and hidden == 0 and not over(item[6], now) then
    if item[2] == version then
      local scope, key = scope_of(item, 7), item_key(id)
      set_end(id, key, item[1], scope, ARGV[position + 2], ARGV[position + 3])
      redis.call('HDEL', key, 'l')
      if ARGV[position + 4] ~= '' then redis.call('HSET', key, 'l', ARGV[position + 4]) end
      touched = touched + 1
    else
      again[#again + 1] = id
    end
  end
end
return {touched, unpack(again)}
"""
)
"""Keys: the base. Arguments: the present, then of each item its id, the version that was read, its new end or nothing,
the milliseconds until then, and its lifetime or nothing. Returns how many were touched, and the ids of those that
changed meanwhile."""

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
    redis.call('SET', memo, '1', 'PX', 60000)
    return {'done'}
  end
  return {'none'}
end
return {'found', row_of(item[1], item, fields_of(item_key(id), 'l', 'j', 'c')), origin}
"""
)
"""Keys: the base. Arguments: the call's token, the filter, ``hide`` or ``purge``, and the id and the origin of the item
that the caller has in hand, or nothing. Returns ``done`` if that was still the last and has been taken; else ``found``
with the one that is, and its origin; or ``none``."""

_MEMO = """
-- A call whose answer was lost is told again what it did.
local memo = base .. 'done:' .. ARGV[1]
local before = redis.call('GET', memo)
if before then return cjson.decode(before) end
local action, family, asked = ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local limits = limits_of(asked)
if not asked.over then sweep(asked.now, 1000) end
local function remember(count, cursor)
  if count > 0 and asked.over then mark(asked.now) end
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
"""Keys: the base. Arguments: the call's token, ``hide``, ``restore`` or ``purge``, the family, the filter, where to go
on, and how many items to look at. Returns how many were moved, and where to go on (nothing at the end).
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
"""Keys: the base. Arguments: as for MOVE_ALL up to the filter, then ids, each with the version it must have, or
none."""

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
if #due > 0 then mark(asked.now) end
return {count, #due < most and '' or due[#due]}
"""
)
"""Keys: the base. Arguments: the filter, where to go on, and how many to look at. Removes what has expired; returns how
many items that were, and where to go on (nothing at the end)."""

SOONEST = Script(
    """
local soonest = redis.call('ZRANGE', KEYS[1] .. 'ends', 0, 0)[1]
return {soonest and string.sub(soonest, 1, 32) or '', redis.call('GET', KEYS[1] .. 'clock') or ''}
"""
)
"""Keys: the base. Returns when the next item expires, and the latest time by which that was judged; or nothing."""

OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
redis.call('SET', KEYS[1] .. 'schema', ARGV[1])
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release. Returns the one that the data has."""
