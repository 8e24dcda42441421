/**
 * What Redis does in one step. Everything is called by its hash; a server that does not know it is sent the text once more.
 *
 * A key of a counter has its day in it, and a script may only touch keys that it is given. So who calls guesses the store's day; a
 * script that is given another day than its own clock says changes nothing and answers its time alone.
 *
 * Numbers are written by `%.0f`: Lua would write 1e+15 for a quadrillion. Large ones are answered as text: the client's parser errs
 * by one near 2^53.
 */
import { createHash } from 'node:crypto'
import { MAX_COUNTED } from '../../kernel/store/counters.ts'

export interface Script<Reply> {
  readonly text: string
  readonly hash: string
  /** Never there: it is the type of the reply. */
  readonly reply?: Reply
}

/** The time first; alone, where the script was given another day than its own. */
export type Timed<Rest> = readonly [nowMs: number, ...Rest[]]

const script = <Reply>(text: string): Script<Reply> => ({
  text,
  hash: createHash('sha1').update(text).digest('hex'),
})

/** ARGV: the day as days since 1970, milliseconds to be added to the server's clock. */
const CLOCK = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[2])
local day = math.floor(now / 86400000)
`
const SAME_DAY = `
if day ~= tonumber(ARGV[1]) then return { now } end
`

/**
 * Any number of calls, one after the other. KEYS, for each call: the names of its tenant, then its counters. ARGV, after day and
 * offset: the seconds that a counter is kept; for each call how many counters, and of each the amount and the limit (-1: none).
 * Returns the time, and for each counter its count; where its call was refused, -1 - count; where it failed, with what.
 *
 * A call whose keys hold something else fails alone, before it has counted anything. Unheard (`call`), a failure would end the
 * script for all who come after, and undo nothing of what was done before. A SET may be unheard: it replaces whatever is there, and
 * a server that has no memory, or may not write, says so before a script has changed anything.
 *
 * The name of a counter is noted with its first count. A server may drop the set of names alone, so the first call of each script
 * looks whether its names are still there, and notes them again; for every call, it would cost nearly as much as counting does.
 * The set lives as long as what it names.
 */
export const TAKE = script<Timed<number | string>>(`${CLOCK}${SAME_DAY}
local kept = ARGV[3]
local ends = (day + 1) * 86400000
local answer = { now }
local said, key, argument, keys = 1, 1, 4, #KEYS
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
    answer[said + n] = failure or exactly(isAllowed and after[n] or -1 - (before[n] or 0))
  end
  said = said + wanted
  key = key + wanted + 1
  argument = argument + wanted * 2 + 1
end
return answer
`)

/** KEYS: the counter, the gauge. */
export const READ = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
return { now, redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) }
`)

/** KEYS: the names. ARGV[3]: what a counter's key has before its name; ARGV[4]: the same of a gauge, in the same slot. */
export const READ_ALL = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local answer = { now }
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  answer[#answer + 1] = name
  answer[#answer + 1] = redis.call('GET', ARGV[3] .. name)
  answer[#answer + 1] = redis.call('GET', ARGV[4] .. name)
end
return answer
`)

/** KEYS: the gauge, the names. ARGV[3] and ARGV[4]: the value, the name. Whichever day it is: it answers the time. */
export const PUT = script<number>(`${CLOCK}
redis.call('ZADD', KEYS[2], '+inf', ARGV[4])
redis.call('PERSIST', KEYS[2])
redis.call('SET', KEYS[1], ARGV[3])
return now
`)

/**
 * KEYS: what was cleared today, and the day before; then of each name the counter of today, and of the day before. ARGV, after day and
 * offset: the names. Returns the time; then for each counter its count, and what was cleared of it.
 */
export const COUNTED = script<Timed<string | null>>(`${CLOCK}${SAME_DAY}
local answer = { now }
for n = 1, #ARGV - 2 do
  for which = 1, 2 do
    answer[#answer + 1] = redis.call('GET', KEYS[n * 2 + which])
    answer[#answer + 1] = redis.call('HGET', KEYS[which], ARGV[n + 2])
  end
end
return answer
`)

/**
 * KEYS: the names, what was cleared today. ARGV[3] and ARGV[4] as of READ_ALL; ARGV[5]: one name, or empty for all; ARGV[6]: the seconds
 * that a counter is kept. What was cleared is kept so long after the end of the day, when nobody counts into it any more.
 *
 * What may fail comes before what changes anything. A key of a counter that holds no count is removed, and nothing was counted there.
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
 * KEYS: the sums of a tenant's day. ARGV: seconds that they are kept, the incarnation if there are none yet, the source and the number of
 * the batch, how much a sum may be; then names and amounts. A name begins with a letter or a digit, what stands beside them does not.
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
