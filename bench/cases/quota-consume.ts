/**
 * Benchmark of `tenancy.quotas.consume`, with tenant, plan, limit, thresholds and metrics, against the shortest
 * handwritten code.
 *
 * - Reference in PostgreSQL: one upsert with a limit for each call. In Redis: one EVALSHA, pipelined by the client.
 * - Over 500 counters and over one hot counter, with 100 calls in flight. The reference uses its best number of
 *   connections.
 * - quota-stores.ts measures only the stores.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { type Bench, compare, perSecond, type Result, RUNS } from '../measure.ts'
import { openRedis } from '../redis.ts'
import { fillRegistry, openTenancy } from '../tenancy.ts'

const TENANTS = 500
const IN_FLIGHT = 100
const LIMIT = 1_000_000_000
const DAY_SECONDS = 86_400

const UPSERT = `
  insert into public.bench_counters as counter (day, tenant_id, name, count) values (current_date, $1, 'exports', 1)
  on conflict (day, tenant_id, name) do update set count = counter.count + 1 where counter.count + 1 <= $2
  returning count`

const CHECK_AND_COUNT = `
  local count = tonumber(redis.call('GET', KEYS[1]) or '0')
  if count + ARGV[1] > tonumber(ARGV[2]) then return -1 end
  count = redis.call('INCRBY', KEYS[1], ARGV[1])
  if count == tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
  return count`

const plans = { defaultPlan: 'free', definitions: { free: { limits: { exports: LIMIT } } } }
const open = async (url: string, options: Pick<Parameters<typeof openTenancy>[1] & object, 'store'> = {}) => {
  const satellite = quotas()
  const tenancy = await openTenancy(url, { plans, satellites: [satellite], role: 'api', ...options })
  await fillRegistry(tenancy, TENANTS)
  return tenancy as typeof tenancy & { readonly quotas: ReturnType<(typeof satellite)['service']> }
}

type Count = (tenantId: string) => Promise<unknown>

const SPREADS = [
  { spread: '500 counters', connections: 10, tenantOf: () => `tenant-${1 + Math.floor(Math.random() * TENANTS)}` },
  { spread: 'one hot counter', connections: 5, tenantOf: () => 'tenant-1' },
] as const

async function measured(
  { quick, say }: Bench,
  name: string,
  { ours, peerBy }: { readonly ours: Count; readonly peerBy: (connections: number) => Count },
  { against, goal }: { readonly against: string; readonly goal: number },
): Promise<Result[]> {
  const results: Result[] = []
  const ms = quick ? 500 : 3_000
  for (const { spread, connections, tenantOf } of SPREADS) {
    const side = (label: string, count: Count) => async () => {
      const rate = await perSecond(IN_FLIGHT, ms, () => count(tenantOf()))
      say(`${name}, ${spread}, ${label}: ${Math.round(rate)} calls/s`)
      return rate
    }
    const sides = [side('ours', ours), side('baseline', peerBy(connections))] as const
    for (const warmUp of sides) await warmUp()
    const both = await compare(RUNS, ...sides)
    results.push({
      name: `quotas.consume, ${name}, ${spread}`,
      against,
      unit: 'calls/s',
      ...both,
      ratio: both.ours / both.reference,
      goal,
    })
  }
  return results
}

async function onPostgres(bench: Bench): Promise<Result[]> {
  const { url, drop } = await createTestDatabase(bench.postgresUrl)
  const pools = new Map<number, pg.Pool>(
    SPREADS.map(({ connections }) => [connections, new pg.Pool({ connectionString: url, max: connections })]),
  )
  const tenancy = await open(url)
  try {
    await tenancy.kernel.database.sql(`create table public.bench_counters (day date, tenant_id text collate "C", name text collate "C",
      count bigint not null, primary key (day, tenant_id, name))`)
    return await measured(
      bench,
      'PostgreSQL',
      {
        ours: (tenantId) => tenancy.quotas.consume(tenantId, 'exports'),
        peerBy: (connections) => async (tenantId) =>
          pools.get(connections)?.query({ name: 'upsert', text: UPSERT, values: [tenantId, LIMIT] }),
      },
      { against: 'one upsert for each call', goal: 3 },
    )
  } finally {
    await tenancy.stop()
    for (const pool of pools.values()) await pool.end()
    await drop()
  }
}

async function onRedis(bench: Bench): Promise<Result[]> {
  const redis = await openRedis(bench.say)
  if (!redis) return []
  const { url, drop } = await createTestDatabase(bench.postgresUrl)
  const keyPrefix = `bench:${randomUUID()}:`
  const client = new Redis(redis.url, { enableAutoPipelining: true })
  const tenancy = await open(url, { store: redisStore({ url: redis.url, keyPrefix }) })
  try {
    const hash = String(await client.script('LOAD', CHECK_AND_COUNT))
    return await measured(
      bench,
      'Redis',
      {
        ours: (tenantId) => tenancy.quotas.consume(tenantId, 'exports'),
        peerBy: () => (tenantId) =>
          client.evalsha(hash, 1, `${keyPrefix}bare:{${tenantId}}:exports`, 1, LIMIT, 2 * DAY_SECONDS),
      },
      { against: 'one pipelined EVALSHA for each call', goal: 0.9 },
    )
  } finally {
    await tenancy.stop()
    await client.quit()
    await redis.stop()
    await drop()
  }
}

export const quotaConsume = {
  name: 'quota consume',
  run: async (bench: Bench): Promise<Result[]> => [...(await onPostgres(bench)), ...(await onRedis(bench))],
}
