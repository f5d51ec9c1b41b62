"""Lua functions that the scripts of the store share: indexes, filters, expiry.

Every key starts with the base, which is the first key of each script; its hash tag keeps all of them in one slot of a
cluster. See :mod:`memoranda_redis._records` for the keys.
"""

from __future__ import annotations

SHARED = """
local base = KEYS[1]
local NAMES = {'user_id', 'session_id', 'task_id', 'agent_id'}
local FIELDS = {'u', 's', 't', 'a', 'n'}

local function given(text)
  if text == '' then return nil end
  return string.sub(text, 2)
end

local function item_key(id) return base .. 'i:' .. id end

-- Call act with each index of a family, 'live', 'said' or 'hidden', for an item of this scope. The fifth part of a
-- scope is the namespace; an item is in the index of its own place, and in those of all places above.
local function each_index(family, scope, act)
  act(base .. family)
  for position, name in ipairs(NAMES) do
    if scope[position] then
      act(base .. family .. ':' .. name .. ':' .. scope[position])
    elseif family == 'said' and position <= 2 then
      act(base .. 'said:none:' .. name)
    end
  end
  if scope[5] then
    act(base .. family .. ':place:' .. scope[5])
    local at = string.find(scope[5], '/', 1, true)
    while at do
      act(base .. family .. ':namespace:' .. string.sub(scope[5], 1, at))
      at = string.find(scope[5], '/', at + 1, true)
    end
  end
end

-- Call act with each value of a scope: the list of all values of its kind, the value, and the prefix of its index.
local function each_value(scope, act)
  for position, name in ipairs(NAMES) do
    if scope[position] then act(base .. 'values:' .. name, scope[position], base .. 'live:' .. name .. ':') end
  end
  if scope[5] then act(base .. 'values:place', scope[5], base .. 'live:place:') end
end

local function enter(family, scope, member)
  each_index(family, scope, function(index) redis.call('ZADD', index, 0, member) end)
  if family == 'live' then
    local number = tonumber(string.sub(member, 33, 48)) or 0
    each_index('said', scope, function(index) redis.call('ZADD', index, number, member) end)
    each_value(scope, function(values, value) redis.call('ZADD', values, 0, value) end)
  end
end

local function leave(family, scope, member)
  each_index(family, scope, function(index) redis.pcall('ZREM', index, member) end)
  if family == 'live' then
    each_index('said', scope, function(index) redis.pcall('ZREM', index, member) end)
    each_value(scope, function(values, value, index)
      if redis.call('EXISTS', index .. value) == 0 then redis.pcall('ZREM', values, value) end
    end)
  end
end

-- Stop the script, before it has written anything, if the key of an index holds something else.
local sound = {}
local function check_indexes(family, scope)
  local function check(index)
    if not sound[index] then redis.call('ZCARD', index) end
    sound[index] = true
  end
  each_index(family, scope, check)
  if family == 'live' then
    each_index('said', scope, check)
    each_value(scope, check)
  end
end

local function within(wanted, scope)
  for position = 1, 4 do
    if wanted[position] and wanted[position] ~= scope[position] then return false end
  end
  return not wanted[5] or string.sub(scope[5] or '', 1, #wanted[5]) == wanted[5]
end

local function limits_of(asked)
  return {asked.user_id, asked.session_id, asked.task_id, asked.agent_id, asked.place}
end

local function scope_of(values, first)
  local scope = {}
  for position = 1, 5 do
    scope[position] = values[first + position - 1] or nil
  end
  return scope
end

-- Some fields of an item; nil if the key holds something else, which another program may have written.
local function fields_of(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  if found.err then return nil end
  return found
end

-- The fields that filters compare: member, version, type, status, archived, expiry, and the scope from the seventh on.
local function watched(id)
  return fields_of(item_key(id), 'm', 'v', 'k', 'w', 'r', 'x', 'u', 's', 't', 'a', 'n')
end

-- The same, and what else is returned of an item: lifetime, JSON and content. One command costs half as much as two.
local function whole(id)
  return fields_of(item_key(id), 'm', 'v', 'k', 'w', 'r', 'x', 'u', 's', 't', 'a', 'n', 'l', 'j', 'c')
end

-- True if an item has expired; its member in 'ends' begins with the time.
local function over(ends, now)
  return ends and now and string.sub(ends, 1, 32) <= now or false
end

local function passes(asked, limits, item, member)
  if not within(limits, scope_of(item, 7)) then return false end
  if asked.memory_type and item[3] ~= asked.memory_type then return false end
  for _, kind in ipairs(asked.unlike or {}) do
    if item[3] == kind then return false end
  end
  if asked.types then
    local among = false
    for _, kind in ipairs(asked.types) do among = among or item[3] == kind end
    if not among then return false end
  end
  if asked.users and item[7] and string.sub(item[7], 1, #asked.users) == asked.users then return false end
  if asked.status and item[4] ~= asked.status then return false end
  if asked.archived ~= nil and asked.archived ~= (item[5] == '1') then return false end
  if asked.now and over(item[6], asked.now) ~= asked.over then return false end
  if asked.since and string.sub(member, 1, 32) < asked.since then return false end
  if asked.before and string.sub(member, 1, 32) >= asked.before then return false end
  for _, position in ipairs(asked.missing or {}) do
    if item[6 + position] then return false end
  end
  return true
end

-- The id, the member in the indexes and the scope in a member of 'ends'; nil if another program wrote it.
local function expiring(member)
  local read, entry = pcall(cjson.decode, string.sub(member, 33))
  if not read or type(entry) ~= 'table' or type(entry[1]) ~= 'string' or type(entry[2]) ~= 'string' then return nil end
  local scope = {}
  for position = 1, 5 do
    local value = entry[position + 2]
    if type(value) == 'string' then scope[position] = value elseif value then return nil end
  end
  return {id = entry[1], member = entry[2], scope = scope}
end

-- The items that this script has changed, as ranges of their numbers in the order of adding.
local changed = {}
local function note(member)
  local number = tonumber(string.sub(member or '', 33, 48)) or 0
  local last = changed[#changed]
  if last and number >= last[1] and number <= last[2] + 1 then
    if number > last[2] then last[2] = number end
  else
    changed[#changed + 1] = {number, number}
  end
end

-- Append what was noted to the log of changes. Many ranges become one that covers all of them.
local function record_changes()
  if #changed == 0 then return end
  local parts = {}
  if #changed > 200 then
    local low, high = changed[1][1], changed[1][2]
    for _, range in ipairs(changed) do
      low, high = math.min(low, range[1]), math.max(high, range[2])
    end
    changed = {{low, high}}
  end
  for position, range in ipairs(changed) do
    parts[position] = string.format('%.0f %.0f', range[1], range[2])
  end
  redis.call('XADD', base .. 'changes', 'MAXLEN', '~', 4000, '*', 'n', table.concat(parts, ' '))
  changed = {}
end

-- Remove an item of 'ends', even if Redis has already dropped it; return true if it still existed. The caller records
-- the change.
local function drop(ends)
  local entry, there = expiring(ends), false
  if entry then
    note(entry.member)
    leave('live', entry.scope, entry.member)
    leave('hidden', entry.scope, entry.member)
    -- The id may have been used again since.
    there = redis.pcall('HGET', item_key(entry.id), 'x') == ends
    if there then redis.call('DEL', item_key(entry.id)) end
  end
  redis.call('ZREM', base .. 'ends', ends)
  return there
end

-- Remove items that the server has dropped from the indexes. Items that have expired only by the caller's clock, which
-- may be wrong, stay; return true if there are none.
local function sweep(now, most)
  for _ = 1, most do
    local soonest = redis.call('ZRANGE', base .. 'ends', 0, 0)[1]
    local entry = soonest and expiring(soonest)
    if not soonest or entry and redis.call('EXISTS', item_key(entry.id)) == 1 then break end
    drop(soonest)
  end
  record_changes()
  return not now or #redis.call('ZRANGEBYLEX', base .. 'ends', '-', '[' .. now .. '\\255', 'LIMIT', 0, 1) == 0
end

-- The shortest index of a family that holds every wanted item; nil if there is none.
local function shortest(family, limits, asked)
  local best, least
  local function look(index)
    local size = redis.call('ZCARD', index)
    if not least or size < least then best, least = index, size end
  end
  look(base .. family)
  for position, name in ipairs(NAMES) do
    if limits[position] then look(base .. family .. ':' .. name .. ':' .. limits[position]) end
  end
  if limits[5] then look(base .. family .. ':namespace:' .. limits[5]) end
  if family == 'said' then
    for _, position in ipairs(asked.missing or {}) do
      if position <= 2 then look(base .. 'said:none:' .. NAMES[position]) end
    end
  end
  if least == 0 then return nil end
  return best, least
end

-- At most so many members of an index after a cursor, and the cursor after each.
local function page(index, by, newest, asked, cursor, most)
  if by == 'added' then
    local found = newest
      and redis.call('ZREVRANGEBYSCORE', index, cursor == '' and '+inf' or '(' .. cursor, '-inf',
        'WITHSCORES', 'LIMIT', 0, most)
      or redis.call('ZRANGEBYSCORE', index, cursor == '' and '-inf' or '(' .. cursor, '+inf',
        'WITHSCORES', 'LIMIT', 0, most)
    local members, cursors = {}, {}
    for position = 1, #found, 2 do
      members[#members + 1] = found[position]
      cursors[#cursors + 1] = found[position + 1]
    end
    return members, cursors
  end
  local low = asked.since and '[' .. asked.since or '-'
  local high = asked.before and '(' .. asked.before or '+'
  local members
  if newest then
    members = redis.call('ZREVRANGEBYLEX', index, cursor == '' and high or '(' .. cursor, low, 'LIMIT', 0, most)
  else
    members = redis.call('ZRANGEBYLEX', index, cursor == '' and low or '(' .. cursor, high, 'LIMIT', 0, most)
  end
  return members, members
end

-- The last added of the items that pass a filter: its id and the fields that filters compare.
local function last_added(asked)
  local limits = limits_of(asked)
  local index = shortest('said', limits, asked)
  if not index then return nil end
  local cursor = ''
  while true do
    local members, cursors = page(index, 'added', true, asked, cursor, 100)
    for _, member in ipairs(members) do
      local id = string.sub(member, 49)
      local item = watched(id)
      if item and item[1] == member and passes(asked, limits, item, member) then return id, item end
    end
    if #members < 100 then return nil end
    cursor = cursors[#cursors]
  end
end

-- A whole item as it is returned: member, version, expiry, lifetime, JSON and content.
local function row_of(member, item)
  return table.concat({
    member, item[2] or '', item[6] and string.sub(item[6], 1, 32) or '', item[12] or '', item[13] or '', item[14] or ''
  }, '\\0')
end

-- Set when a stored item expires, or that it does not.
local function set_end(id, key, member, scope, ends, life)
  local before = redis.call('HGET', key, 'x')
  if before then redis.call('ZREM', base .. 'ends', before) end
  if ends == '' then
    redis.call('HDEL', key, 'x')
    redis.call('PERSIST', key)
    return
  end
  local written = ends .. cjson.encode({
    id, member, scope[1] or false, scope[2] or false, scope[3] or false, scope[4] or false, scope[5] or false
  })
  redis.call('HSET', key, 'x', written)
  redis.call('ZADD', base .. 'ends', 0, written)
  redis.call('PEXPIRE', key, life)
end
"""

MOVING = """
-- Hide, restore or purge one item, and return true if that was done; the caller records the change. An item that lost
-- its member has the one that it was found by, if any.
local function move(action, id, family, asked, limits, expected, found)
  local item = watched(id)
  local rest = item and fields_of(item_key(id), 'c', 'h')
  if not item or not (item[1] or item[2] or rest[1]) then return false end
  if (rest[2] and 'hidden' or 'live') ~= family then return false end
  if expected ~= '' and item[2] ~= expected then return false end
  local scope, place = scope_of(item, 7), item[1] or found
  if not place and action ~= 'purge' then return false end
  if not passes(asked, limits, item, place or '') then return false end
  check_indexes('live', scope)
  check_indexes('hidden', scope)
  note(place)
  leave(family, scope, place or '')
  if action == 'purge' then
    redis.call('DEL', item_key(id))
    if item[6] then redis.call('ZREM', base .. 'ends', item[6]) end
    return true
  end
  local other = family == 'live' and 'hidden' or 'live'
  enter(other, scope, place)
  if other == 'hidden' then redis.call('HSET', item_key(id), 'h', '1') else redis.call('HDEL', item_key(id), 'h') end
  return true
end
"""
