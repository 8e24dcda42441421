/**
 * Benchmark of the guarded read (guarded-reads.ts, rowscope-pg) with `enforceQuota`, against the same read without
 * guard and quota, and against the guard only. 50 tenants, one load generator, 25 connections.
 */
import { alternate, type Bench, type Result, RUNS } from '../measure.ts'
import { fillNotes, optionsFor, ROWSCOPE } from '../notes.ts'
import { openRedis } from '../redis.ts'
import { requestsPerSecond } from '../requests-per-second.ts'
import { serve } from '../serve.ts'
import { withTenancy } from '../tenancy.ts'

export const quotaRoute = {
  name: 'quota route',
  run: (bench: Bench): Promise<Result[]> =>
    withTenancy(
      bench.postgresUrl,
      async (tenancy, url) => {
        await fillNotes(tenancy, url)
        const results = await measured(bench, 'PostgreSQL', { DATABASE_URL: url })
        const redis = await openRedis(bench.say)
        try {
          if (redis) results.push(...(await measured(bench, 'Redis', { DATABASE_URL: url, STORE_URL: redis.url })))
        } finally {
          await redis?.stop()
        }
        return results
      },
      optionsFor(ROWSCOPE),
    ),
}

async function measured({ quick, say }: Bench, store: string, where: Record<string, string>): Promise<Result[]> {
  const environment = { ...where, WAY: ROWSCOPE.name, LIBRARY: 'pg', CONNECTIONS: String(ROWSCOPE.connections) }
  const servers = {
    quota: await serve('quota-route', environment),
    guard: await serve('guarded-read', environment),
    plain: await serve('plain-read', environment),
  }
  const load = (side: keyof typeof servers) => async () => {
    const { average, cpuMicros } = await requestsPerSecond(servers[side], quick ? 1 : 4)
    say(`${store}, ${side}: ${Math.round(average)} requests/s, ${Math.round(cpuMicros)} µs of CPU each`)
    return average
  }
  try {
    const sides = { quota: load('quota'), guard: load('guard'), plain: load('plain') }
    for (const warmUp of Object.values(sides)) await warmUp()
    const { quota, guard, plain } = await alternate(RUNS, sides)
    const name = `guarded read with a quota, ${store}`
    const ours = { name, unit: 'requests/s', ours: quota }
    return [
      { ...ours, against: 'the same route without guard and quota', reference: plain, ratio: quota / plain },
      { ...ours, against: 'the same route with the guard only', reference: guard, ratio: quota / guard },
    ]
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.close()))
  }
}
