/**
 * Benchmark of the stores' counters with a limit against handwritten code, for concurrent callers on 500 counters and
 * on one. Reference in Redis: a pipelined script for each call; in PostgreSQL: an upsert for each call, on the best
 * number of connections.
 */
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { systemClock } from '../../src/kernel/base/clock.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database, type Prepared } from '../../src/kernel/database/database.ts'
import { migrate } from '../../src/kernel/database/migrations.ts'
import type { Store } from '../../src/kernel/store/store.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { alternate, type Bench, compare, perSecond, type Result, RUNS } from '../measure.ts'
import { openRedis } from '../redis.ts'

const IN_FLIGHT = 128
const LIMIT = 1_000_000_000
/** With more connections, concurrent upserts of one counter wait for each other. */
const PLACES = [
  { counters: 500, words: 'over 500 counters', connections: 10 },
  { counters: 1, words: 'on one counter', connections: 5 },
]

const CHECK_AND_ADD = `
local count = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
if count > tonumber(ARGV[2]) then return -1 end
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 172800)
return count`

const UPSERT: Prepared = {
  name: 'upsert',
  text: `insert into by_hand as kept (day, tenant_id, name, count) values (current_date, $1, 'calls', 1)
    on conflict (day, tenant_id, name) do update set count = kept.count + 1 where kept.count + 1 <= $2 returning count`,
}

export const quotaStores = {
  name: 'quota stores',
  run: async (bench: Bench): Promise<Result[]> => [...(await onRedis(bench)), ...(await onPostgres(bench))],
}

async function onRedis({ quick, say }: Bench): Promise<Result[]> {
  const server = await openRedis(say)
  if (!server) return []
  const { url } = server
  const keyPrefix = 'bench:'
  const store = redisStore({ url, keyPrefix }).open({ log: createLogger({ level: 'warn' }) })
  const client = new Redis(url, { enableAutoPipelining: true })
  try {
    const hash = (await client.script('LOAD', CHECK_AND_ADD)) as string
    const limiter = new RateLimiterRedis({
      storeClient: client,
      points: LIMIT,
      duration: 86_400,
      keyPrefix: 'bench-limiter',
    })
    const results: Result[] = []
    for (const { counters, words } of PLACES) {
      const next = turning(counters)
      const { ours, script, peer } = await alternate(RUNS, {
        ours: () => taking(store, counters, quick),
        script: () => rate(quick, () => client.evalsha(hash, 1, `bench-script:${next()}`, 1, LIMIT)),
        peer: () => rate(quick, () => limiter.consume(next())),
      })
      const name = `quota in Redis, ${words}`
      results.push(
        {
          name,
          against: 'a pipelined script for each call',
          unit: 'calls/s',
          ours,
          reference: script,
          ratio: ours / script,
          goal: 0.9,
        },
        {
          name: `${name}, and a library`,
          against: 'rate-limiter-flexible',
          unit: 'calls/s',
          ours,
          reference: peer,
          ratio: ours / peer,
          goal: 1,
        },
      )
    }
    return results
  } finally {
    await store.close()
    client.disconnect()
    await server.stop()
  }
}

async function onPostgres({ postgresUrl, quick }: Bench): Promise<Result[]> {
  const log = createLogger({ level: 'warn' })
  const { url, drop } = await createTestDatabase(postgresUrl)
  const database = new Database({ url, max: 2 }, log)
  const driver = postgresStore()
  await database.sql(
    `create table by_hand (day date, tenant_id text, name text, count bigint not null, primary key (day, tenant_id, name)) with (fillfactor = 50)`,
  )
  await migrate(database, [{ part: 'store', migrations: driver.tables ?? [] }])
  const store = driver.open({ database, clock: systemClock, log })
  try {
    const results: Result[] = []
    for (const { counters, words, connections } of PLACES) {
      const next = turning(counters)
      const byHand = database.apart(connections)
      const { ours, reference } = await compare(
        RUNS,
        () => taking(store, counters, quick),
        () => rate(quick, () => byHand.sql(UPSERT, [next(), LIMIT])),
      )
      await byHand.close()
      results.push({
        name: `quota in PostgreSQL, ${words}`,
        against: 'an upsert for each call',
        unit: 'calls/s',
        ours,
        reference,
        ratio: ours / reference,
        goal: 3,
      })
    }
    return results
  } finally {
    await store.close()
    await database.close()
    await drop()
  }
}

function taking(store: Store, counters: number, quick: boolean): Promise<number> {
  const next = turning(counters)
  return rate(quick, () => store.counters.take(next(), [{ name: 'calls', amount: 1, limit: LIMIT }]))
}

const rate = (quick: boolean, work: () => Promise<unknown>): Promise<number> =>
  perSecond(IN_FLIGHT, quick ? 300 : 2_000, work)

function turning(counters: number): () => string {
  let count = 0
  return () => `tenant-${count++ % counters}`
}
