/**
 * Lua scripts, which Redis executes atomically. They are called by hash; a server that does not know a script receives
 * its text.
 *
 * - The key of a counter contains its day, and a script may only touch keys that it receives. So the caller derives the
 *   day; a script that receives another day than the server's changes nothing and returns only the server's time.
 * - Numbers are formatted with `%.0f`: Lua would write 1e+15 for a quadrillion. Large numbers are returned as text,
 *   because the client's parser is wrong by one near 2^53.
 */
import { createHash } from 'node:crypto'
import { MAX_COUNTED } from '../../kernel/store/counters.ts'

export interface Script<Reply> {
  readonly text: string
  readonly hash: string
  /** Never set: it carries the type of the reply. */
  readonly reply?: Reply
}

/** The server's time first; nothing else if the script received another day than the server's. */
export type Timed<Rest> = readonly [nowMs: number, ...Rest[]]

const script = <Reply>(text: string): Script<Reply> => ({
  text,
  hash: createHash('sha1').update(text).digest('hex'),
})

/** ARGV: the day in days since 1970, the offset of the server's clock in ms. */
const CLOCK = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[2])
local day = math.floor(now / 86400000)
`
const SAME_DAY = `
if day ~= tonumber(ARGV[1]) then return { now } end
`

/**
 * Executes any number of calls in their order. KEYS, for each call: the set of names of its tenant, then its counters.
 * ARGV, after day and offset: the TTL of a counter in seconds; for each call the number of counters, and for each
 * counter the amount and the limit (-1: none). Returns the time, and for each counter its count; -1 - count for a
 * rejected call; the error for a failed call.
 *
 * - A call with keys of another type fails without effect on other calls, and counts nothing. With `call` instead of
 *   `pcall`, its error would end the script for all later calls, and would undo nothing of the former ones. SET needs
 *   no `pcall`: it replaces any value, and a server that is out of memory or read-only reports so before a script has
 *   changed anything.
 * - The name of a counter is noted with its first count. A server may evict only the set of names, so the first call of
 *   each script checks whether its names are noted, and notes them again; a check in every call would nearly double the
 *   cost.
 * - The set of names lives as long as the counters.
 */
export const TAKE = script<Timed<number | string>>(`${CLOCK}${SAME_DAY}
local kept = ARGV[3]
local ends = (day + 1) * 86400000
local reply = { now }
local offset, key, argument, keys = 1, 1, 4, #KEYS
local before, after = {}, {}
local function exactly(count)
  if count < 4503599627370496 and count > -4503599627370496 then return count end
  return string.format('%.0f', count)
end
local function failureToNote(names, counter, isNew)
  local name = string.match(counter, '[^:]*$')
  if not isNew and redis.pcall('ZSCORE', names, name) then return false end
  local noted = redis.pcall('ZADD', names, 'GT', ends, name)
  if type(noted) == 'table' then return noted.err end
  if redis.call('ZCOUNT', names, '+inf', '+inf') == 0 then redis.call('EXPIRE', names, kept) end
  return false
end
while key <= keys do
  local wanted = tonumber(ARGV[argument])
  local isAllowed, failure, isToNote = true, false, key == 1
  for n = 1, wanted do
    local amount, limit = tonumber(ARGV[argument + n * 2 - 1]), tonumber(ARGV[argument + n * 2])
    local found = redis.pcall('GET', KEYS[key + n])
    local count = found and tonumber(found)
    if not found then
      isToNote = true
    elseif not count or count % 1 ~= 0 then
      failure, count = type(found) == 'table' and found.err or 'WRONGTYPE not a count', false
    end
    before[n] = count
    after[n] = (count or 0) + amount
    if (amount > 0 and limit >= 0 and after[n] > limit) or after[n] > 9007199254740991 then isAllowed = false end
  end
  if isToNote and isAllowed and not failure then
    for n = 1, wanted do
      if after[n] ~= (before[n] or 0) then
        failure = failure or failureToNote(KEYS[key], KEYS[key + n], not before[n])
      end
    end
  end
  for n = 1, wanted do
    if isAllowed and not failure and after[n] ~= (before[n] or 0) then
      redis.call('SET', KEYS[key + n], string.format('%.0f', after[n]), 'EX', kept)
    end
    reply[offset + n] = failure or exactly(isAllowed and after[n] or -1 - (before[n] or 0))
  end
  offset = offset + wanted
  key = key + wanted + 1
  argument = argument + wanted * 2 + 1
end
return reply
`)

/** KEYS: the counter, the gauge. */
export const READ = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
return { now, redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) }
`)

/** KEYS: the names. ARGV[3]: prefix of the counters' keys; ARGV[4]: prefix of the gauges' keys, in the same slot. */
export const READ_ALL = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local reply = { now }
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('GET', ARGV[3] .. name)
  reply[#reply + 1] = redis.call('GET', ARGV[4] .. name)
end
return reply
`)

/** KEYS: the gauge, the names. ARGV[3] and ARGV[4]: the value, the name. Works on any day, and returns the time. */
export const PUT = script<number>(`${CLOCK}
redis.call('ZADD', KEYS[2], '+inf', ARGV[4])
redis.call('PERSIST', KEYS[2])
redis.call('SET', KEYS[1], ARGV[3])
return now
`)

/**
 * KEYS: the cleared counts of today and of yesterday; then for each name the counter of today and of yesterday. ARGV,
 * after day and offset: the names. Returns the time; then for each counter its count and its cleared count.
 */
export const COUNTED = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
local reply = { now }
for n = 1, #ARGV - 2 do
  for which = 1, 2 do
    reply[#reply + 1] = redis.call('GET', KEYS[n * 2 + which])
    reply[#reply + 1] = redis.call('HGET', KEYS[which], ARGV[n + 2])
  end
end
return reply
`)

/**
 * KEYS: the names, the cleared counts of today. ARGV[3] and ARGV[4] as in READ_ALL; ARGV[5]: one name, or empty for
 * all; ARGV[6]: the TTL of a counter in seconds. Cleared counts live as long after the end of the day.
 *
 * Commands that may fail precede all changes. A counter's key that has another type of value is removed and counts as
 * 0.
 */
export const CLEAR = script<Timed<number>>(`${CLOCK}${SAME_DAY}
local names = ARGV[5] == '' and redis.call('ZRANGE', KEYS[1], 0, -1) or { ARGV[5] }
local cleared = {}
for _, name in ipairs(names) do
  local found = redis.pcall('GET', ARGV[3] .. name)
  local count = type(found) == 'string' and tonumber(found)
  if count and count > 0 and count % 1 == 0 then
    cleared[name] = math.min((redis.call('HGET', KEYS[2], name) or 0) + count, ${MAX_COUNTED})
  end
end
for name, sum in pairs(cleared) do redis.call('HSET', KEYS[2], name, string.format('%.0f', sum)) end
if next(cleared) then
  redis.call('EXPIRE', KEYS[2], ARGV[6] + math.ceil(((day + 1) * 86400000 - now) / 1000))
end
for _, name in ipairs(names) do
  redis.call('DEL', ARGV[3] .. name, ARGV[4] .. name)
  redis.call('ZREM', KEYS[1], name)
end
return { now, 0 }
`)

/** KEYS: the key. ARGV: the amount, milliseconds until it expires (0: never). */
export const INCREMENT = script<string>(`
local after = redis.call('INCRBY', KEYS[1], ARGV[1])
if ARGV[2] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])
`)

/**
 * KEYS: the sums of a tenant's day. ARGV: TTL in seconds, the incarnation of a new hash, the source and the number of
 * the batch, the maximum of a sum; then names and amounts. A name begins with a letter or a digit, the other fields of
 * the hash do not.
 */
export const ADD = script<number>(`
local key, source, number = KEYS[1], '#' .. ARGV[3], tonumber(ARGV[4])
local last = redis.call('HGET', key, source)
if last and tonumber(last) >= number then return 0 end
redis.call('HSETNX', key, '@', ARGV[2])
for n = 6, #ARGV, 2 do
  local sum = (tonumber(redis.call('HGET', key, ARGV[n]) or 0) or 0) + tonumber(ARGV[n + 1])
  redis.call('HSET', key, ARGV[n], string.format('%.0f', math.min(sum, tonumber(ARGV[5]))))
end
redis.call('HSET', key, source, ARGV[4])
redis.call('EXPIRE', key, ARGV[1])
return 1
`)
