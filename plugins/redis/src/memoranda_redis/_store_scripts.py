"""The scripts of the store. Each runs as a whole; what it refuses, it refuses before it has written anything.

Every key starts with the base that the first key names, whose hash tag keeps all of them in one slot of a cluster. See
:mod:`memoranda_redis._records` for what lies where.
"""

from __future__ import annotations

from memoranda_redis._connection import Script

SHARED = """
local base = KEYS[1]
local NAMES = {'user_id', 'session_id', 'task_id', 'agent_id'}
local FIELDS = {'u', 's', 't', 'a'}

local function given(text)
  if text == '' then return nil end
  return string.sub(text, 2)
end

local function item_key(id) return base .. 'i:' .. id end

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

-- The indexes of a family, 'live' or 'hidden', that an item with this scope is in.
local function each_index(family, scope, act)
  act(base .. family)
  for position, name in ipairs(NAMES) do
    if scope[position] then act(base .. family .. ':' .. name .. ':' .. scope[position]) end
  end
end

local function within(wanted, scope)
  for position = 1, 4 do
    if wanted[position] and wanted[position] ~= scope[position] then return false end
  end
  return true
end

local function wanted_scope(first)
  return {given(ARGV[first]), given(ARGV[first + 1]), given(ARGV[first + 2]), given(ARGV[first + 3])}
end

local function scope_of(values, first)
  local scope = {}
  for position = 1, 4 do
    scope[position] = values[first + position - 1] or nil
  end
  return scope
end

-- Some fields of an item; nil where the key holds something else, which is not ours to judge.
local function fields_of(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  if found.err then return nil end
  return found
end

-- An index that holds something else stops a script here, before it has written anything.
local sound = {}
local function check_indexes(family, scope)
  each_index(family, scope, function(index)
    if not sound[index] then redis.call('ZCARD', index) end
    sound[index] = true
  end)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- What the member of an item that expires says, or nil if it is not ours: id, member in the indexes, scope.
local function expiring(member)
  local read, entry = pcall(cjson.decode, member)
  if not read or type(entry) ~= 'table' or type(entry[1]) ~= 'string' or type(entry[2]) ~= 'string' then return nil end
  local scope = {}
  for position = 1, 4 do
    local value = entry[position + 2]
    if type(value) == 'string' then scope[position] = value elseif value then return nil end
  end
  return {id = entry[1], member = entry[2], scope = scope}
end

-- Redis removes an item that expires by itself; its traces in the indexes go here, with whatever is called next.
local function sweep(most)
  local key = base .. 'ttl'
  local swept = 0
  while swept < most do
    local gone = redis.call('ZRANGEBYSCORE', key, '-inf', now(), 'LIMIT', 0, 50)
    if #gone == 0 then return end
    for _, member in ipairs(gone) do
      local entry = expiring(member)
      if entry then
        for _, family in ipairs({'live', 'hidden'}) do
          each_index(family, entry.scope, function(index) redis.pcall('ZREM', index, entry.member) end)
        end
        -- Somebody may have used the id again since it became free.
        if redis.pcall('HGET', item_key(entry.id), 'x') == member then redis.call('DEL', item_key(entry.id)) end
      end
      redis.call('ZREM', key, member)
    end
    swept = swept + #gone
  end
end

-- The shortest index that holds every item of a scope; nil when there is no such item.
local function shortest(family, scope)
  local best, least
  local empty = false
  each_index(family, scope, function(index)
    local size = redis.call('ZCARD', index)
    if size == 0 then empty = true end
    if not least or size < least then best, least = index, size end
  end)
  if empty then return nil end
  return best, least
end
"""

PUT = Script(
    SHARED
    + """
local token, lifetime, limits = ARGV[1], tonumber(ARGV[2]), wanted_scope(3)
sweep(50)

local KEPT = {'v', 'm', 'h', 'x', 'u', 's', 't', 'a', 'o'}
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

for position = 7, #ARGV, 4 do
  local part = split(ARGV[position])
  local item = {
    id = part[1], created = part[2], kind = part[3], status = part[4], archived = part[5],
    expected = tonumber(part[6]), scope = {given(part[7]), given(part[8]), given(part[9]), given(part[10])},
    hidden = part[11] == '1', body = ARGV[position + 1], content = ARGV[position + 2], folded = ARGV[position + 3],
  }
  item.key = item_key(item.id)
  item.found = redis.call('HMGET', item.key, unpack(KEPT))
  local found = item.found
  if found[9] == token then
    -- This very write was done before and its answer lost.
    local versions = {'done'}
    for other = 7, #ARGV, 4 do
      versions[#versions + 1] = redis.call('HGET', item_key(split(ARGV[other])[1]), 'v') or '0'
    end
    return versions
  end
  local number = #items + 1
  local version = found[1] and not found[3] and tonumber(found[1]) or nil
  local stale = item.expected and (version or 0) ~= item.expected
  check_indexes('live', item.scope)
  if there(found) then
    local scope = scope_of(found, 5)
    check_indexes(found[3] and 'hidden' or 'live', scope)
    -- Hidden items are nobody's business for a comparison of versions, but their id is still taken.
    if stale and found[3] then return {'changed', number, -1} end
    if scope[1] ~= item.scope[1] or not within(limits, scope) then return {'taken', number} end
  end
  local before = owners[item.id]
  if before and (before[1] ~= item.scope[1] or not within(limits, before)) then return {'taken', number} end
  if stale then return {'changed', number, version or -1} end
  if owners[item.id] then
    item.again = true
  elseif not number_of(found) then
    new = new + 1
  end
  owners[item.id] = item.scope
  items[number] = item
end

local versions = {'done'}
local added = new > 0 and redis.call('INCRBY', base .. 'added', new) - new or 0
for _, item in ipairs(items) do
  local key = item.key
  local found = item.again and redis.call('HMGET', key, unpack(KEPT)) or item.found
  local version, number, left = (tonumber(found[1] or 0) or 0) + 1, number_of(found), nil
  if there(found) then
    each_index(found[3] and 'hidden' or 'live', scope_of(found, 5), function(index)
      redis.call('ZREM', index, found[2] or '')
    end)
    if found[4] then
      redis.call('ZREM', base .. 'ttl', found[4])
      -- A comparison changes an item; an add puts another in its place, with a life of its own.
      if item.expected and not found[3] then left = redis.call('PTTL', key) end
    end
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
  for position, name in ipairs(FIELDS) do
    if item.scope[position] then
      fields[#fields + 1] = name
      fields[#fields + 1] = item.scope[position]
    end
  end
  if item.folded ~= '' then
    fields[#fields + 1] = 'f'
    fields[#fields + 1] = item.folded
  end
  if item.archived ~= '' then
    fields[#fields + 1] = 'r'
    fields[#fields + 1] = '1'
  end
  if item.hidden then
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = '1'
  end
  local life = lifetime or left
  if life and life > 0 then
    local scope = item.scope
    local written = cjson.encode({
      item.id, member, scope[1] or false, scope[2] or false, scope[3] or false, scope[4] or false
    })
    fields[#fields + 1] = 'x'
    fields[#fields + 1] = written
    redis.call('HSET', key, unpack(fields))
    local moment = string.format('%.0f', now() + life)
    redis.call('PEXPIREAT', key, moment)
    redis.call('ZADD', base .. 'ttl', moment, written)
  else
    redis.call('HSET', key, unpack(fields))
  end
  each_index(item.hidden and 'hidden' or 'live', item.scope, function(index)
    redis.call('ZADD', index, 0, member)
  end)
  versions[#versions + 1] = version
end
return versions
"""
)
"""Keys: the base. Arguments: the write's token, milliseconds to live or nothing, the scope to stay within, then header,
body, content and folded content of each item. Returns ``done`` and the versions; or ``taken`` or ``changed``, the
item's position and, for the latter, the version that was found (-1 for none), with nothing written.
"""

FIND = Script(
    SHARED
    + """
local family, newest, limits = ARGV[1], ARGV[2] == 'newest', wanted_scope(3)
local kind, status, archived = given(ARGV[7]), given(ARGV[8]), ARGV[9]
local limit, cursor, effort, query = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12]), ARGV[13]
sweep(1000)

local index = shortest(family, limits)
if not index then return {''} end
local rows, seen = {''}, 0
while seen < effort do
  local members
  if newest then
    members = redis.call('ZREVRANGEBYLEX', index, cursor == '' and '+' or '(' .. cursor, '-', 'LIMIT', 0, 100)
  else
    members = redis.call('ZRANGEBYLEX', index, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, 100)
  end
  for _, member in ipairs(members) do
    local item = fields_of(item_key(string.sub(member, 49)),
      'j', 'v', 'k', 'w', 'r', 'u', 's', 't', 'a', 'c', 'f', 'm')
    if not item or not item[12] and (item[1] or item[2] or item[10]) then
      -- There is something, but no item: a row that says only where.
      rows[#rows + 1] = member
    -- A member whose item Redis dropped may name an item that was added again, and is a member by another name.
    elseif item[12] == member and (not kind or item[3] == kind) and (not status or item[4] == status)
      and (archived == '' or (archived == '1') == (item[5] == '1')) and within(limits, scope_of(item, 6))
      and (query == '' or string.find(item[11] or string.lower(item[10] or ''), query, 1, true)) then
      rows[#rows + 1] = table.concat({member, item[2] or '', item[1] or '', item[10] or ''}, '\\0')
    end
    if #rows > limit then
      rows[1] = member
      return rows
    end
  end
  if #members < 100 then return rows end
  seen = seen + #members
  cursor = members[#members]
end
rows[1] = cursor
return rows
"""
)
"""Keys: the base. Arguments: the family, ``newest`` or ``oldest`` first, the scope, type, status, whether archived, the
limit, where to go on, how many items to look at, and the folded query. Returns where to go on (nothing at the end),
then the rows: member, version, JSON and content; the member alone where there is something that is no item.
"""

COUNT = Script(
    SHARED
    + """
local family, limits = ARGV[1], wanted_scope(2)
sweep(100000)

local index, size = shortest(family, limits)
if not index then return 0 end
local conditions = 0
for position = 1, 4 do
  if limits[position] then conditions = conditions + 1 end
end
if conditions < 2 then return size end
local count, cursor = 0, '-'
while true do
  local members = redis.call('ZRANGEBYLEX', index, cursor, '+', 'LIMIT', 0, 500)
  for _, member in ipairs(members) do
    local values = fields_of(item_key(string.sub(member, 49)), 'u', 's', 't', 'a', 'm')
    if values and values[5] == member and within(limits, scope_of(values, 1)) then count = count + 1 end
  end
  if #members < 500 then return count end
  cursor = '(' .. members[#members]
end
"""
)
"""Keys: the base. Arguments: the family and the scope. Returns how many items there are."""

_MOVING = """
-- Hide, restore or purge one item, and say whether that was done. An item that lost its place has that of the index
-- in which it was found, if it was.
local function move(action, id, family, limits, expected, found)
  local key = item_key(id)
  local item = fields_of(key, 'm', 'v', 'h', 'x', 'u', 's', 't', 'a', 'c')
  if not item or not (item[1] or item[2] or item[9]) then return false end
  if (item[3] and 'hidden' or 'live') ~= family then return false end
  if expected ~= '' and item[2] ~= expected then return false end
  local scope, place = scope_of(item, 5), item[1] or found
  if not within(limits, scope) or not place and action ~= 'purge' then return false end
  check_indexes('live', scope)
  check_indexes('hidden', scope)
  each_index(family, scope, function(index) redis.call('ZREM', index, place or '') end)
  if action == 'purge' then
    redis.call('DEL', key)
    if item[4] then redis.call('ZREM', base .. 'ttl', item[4]) end
    return true
  end
  local other = family == 'live' and 'hidden' or 'live'
  each_index(other, scope, function(index) redis.call('ZADD', index, 0, place) end)
  if other == 'hidden' then redis.call('HSET', key, 'h', '1') else redis.call('HDEL', key, 'h') end
  return true
end

-- A call whose answer was lost is told again what it did.
local memo = base .. 'done:' .. ARGV[1]
local before = redis.call('GET', memo)
if before then return cjson.decode(before) end
sweep(1000)
local function remember(count, cursor)
  if count > 0 then redis.call('SET', memo, cjson.encode({count, cursor}), 'PX', 60000) end
  return {count, cursor}
end
"""

MOVE_ALL = Script(
    SHARED
    + _MOVING
    + """
local action, family, limits, cursor, most = ARGV[2], ARGV[3], wanted_scope(4), ARGV[8], tonumber(ARGV[9])
local index = shortest(family, limits)
if not index then return remember(0, '') end
local from = cursor == '' and '-' or '(' .. cursor
local members = redis.call('ZRANGEBYLEX', index, from, '+', 'LIMIT', 0, most)
local count = 0
for _, member in ipairs(members) do
  if move(action, string.sub(member, 49), family, limits, '', member) then count = count + 1 end
end
return remember(count, #members < most and '' or members[#members])
"""
)
"""Keys: the base. Arguments: the call's token, ``hide``, ``restore`` or ``purge``, the family, the scope, where to go
on, and how many items to look at. Returns how many were moved, and where to go on (nothing at the end).
"""

MOVE_SOME = Script(
    SHARED
    + _MOVING
    + """
local action, family, limits = ARGV[2], ARGV[3], wanted_scope(4)
local count = 0
for position = 8, #ARGV, 2 do
  if move(action, ARGV[position], family, limits, ARGV[position + 1]) then count = count + 1 end
end
return remember(count, '')
"""
)
"""Keys: the base. Arguments: as for MOVE_ALL up to the scope, then ids, each with the version it must have, or none."""

OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
redis.call('SET', KEYS[1] .. 'schema', ARGV[1])
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release. Returns the one that the data has."""
