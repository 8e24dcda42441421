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

export interface Script {
  readonly text: string
  readonly hash: string
}

const script = (text: string): Script => ({ text, hash: createHash('sha1').update(text).digest('hex') })

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
 * Answers the time, and for each counter its count; where its call was refused, -1 - count.
 *
 * The name of a counter is noted when its first is counted; the set of names lives as long as what it names.
 */
export const TAKE = script(`${CLOCK}${SAME_DAY}
local kept = ARGV[3]
local ends = (day + 1) * 86400000
local answer = { now }
local said, key, argument, keys = 1, 1, 4, #KEYS
local before, after = {}, {}
local function exactly(count)
  if count < 4503599627370496 and count > -4503599627370496 then return count end
  return string.format('%.0f', count)
end
while key <= keys do
  local wanted = tonumber(ARGV[argument])
  local isAllowed = true
  for n = 1, wanted do
    local amount, limit = tonumber(ARGV[argument + n * 2 - 1]), tonumber(ARGV[argument + n * 2])
    local kept_count = redis.call('GET', KEYS[key + n])
    before[n] = kept_count and tonumber(kept_count) or false
    after[n] = (before[n] or 0) + amount
    if (amount > 0 and limit >= 0 and after[n] > limit) or after[n] > 9007199254740991 then isAllowed = false end
  end
  for n = 1, wanted do
    said = said + 1
    if not isAllowed then
      answer[said] = exactly(-1 - (before[n] or 0))
    else
      answer[said] = exactly(after[n])
      if after[n] ~= (before[n] or 0) then
        redis.call('SET', KEYS[key + n], string.format('%.0f', after[n]), 'EX', kept)
        if not before[n] then
          local names = KEYS[key]
          redis.call('ZADD', names, 'GT', ends, string.match(KEYS[key + n], '[^:]*$'))
          if redis.call('ZCOUNT', names, '+inf', '+inf') == 0 then redis.call('EXPIRE', names, kept) end
        end
      end
    end
  end
  key = key + wanted + 1
  argument = argument + wanted * 2 + 1
end
return answer
`)

/** KEYS: the counter, the standing value. */
export const READ = script(`${CLOCK}${SAME_DAY}
return { now, redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) }
`)

/** KEYS: the names. ARGV[3]: what a counter's key has before its name; ARGV[4]: the same of a standing value, in the same slot. */
export const READ_ALL = script(`${CLOCK}${SAME_DAY}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local answer = { now }
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  answer[#answer + 1] = name
  answer[#answer + 1] = redis.call('GET', ARGV[3] .. name)
  answer[#answer + 1] = redis.call('GET', ARGV[4] .. name)
end
return answer
`)

/** KEYS: the standing value, the names. ARGV[3] and ARGV[4]: the value, the name. Whichever day it is: it answers the time. */
export const PUT = script(`${CLOCK}
redis.call('SET', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], '+inf', ARGV[4])
redis.call('PERSIST', KEYS[2])
return now
`)

/** KEYS: the names. ARGV[3] and ARGV[4] as of READ_ALL; ARGV[5]: one name, or empty for all. */
export const CLEAR = script(`${CLOCK}${SAME_DAY}
local names = ARGV[5] == '' and redis.call('ZRANGE', KEYS[1], 0, -1) or { ARGV[5] }
for _, name in ipairs(names) do
  redis.call('DEL', ARGV[3] .. name, ARGV[4] .. name)
  redis.call('ZREM', KEYS[1], name)
end
return { now, 0 }
`)

/** KEYS: the key. ARGV: the amount, milliseconds until it expires (0: never). */
export const INCREMENT = script(`
local after = redis.call('INCRBY', KEYS[1], ARGV[1])
if ARGV[2] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])
`)
