/**
 * Benchmark of provisioning, with registry and job or by the driver only, against the same DDL in a loop. With a
 * database for each tenant the reference creates databases with that DDL.
 */
import pg from 'pg'
import type { Tenancy } from '../../src/index.ts'
import { type Bench, compare, median, type Result, RUNS, timed } from '../measure.ts'
import { DATABASE, optionsFor, ROWSCOPE, tenantId } from '../notes.ts'
import { FIVE_TABLES, installAll, withTenancy } from '../tenancy.ts'

export const provisioning = {
  name: 'provisioning',
  async run({ postgresUrl, quick, say }: Bench): Promise<Result[]> {
    const measure = (one: Comparing) => (tenancy: Tenancy, url: string) => measured(say, tenancy, url, one)
    const schemas = measure({
      isolation: 'schema-pg',
      count: quick ? 10 : 60,
      baseline: baselineSchema,
      against: 'the same DDL in a loop, one transaction each',
      goals: { service: 1 / 1.3, driver: 0.9 },
    })
    const databases = measure({
      isolation: 'database-pg',
      count: quick ? 3 : 10,
      baseline: baselineDatabase,
      against: 'CREATE DATABASE and the same DDL in a loop',
      goals: {},
    })
    return [
      ...(await withTenancy(postgresUrl, schemas)),
      ...(await withTenancy(postgresUrl, databases, { isolation: [DATABASE.isolation()] })),
      await withTenancy(postgresUrl, (tenancy) => inSharedTables(tenancy, quick ? 10 : 300), optionsFor(ROWSCOPE)),
    ]
  },
}

interface Comparing {
  readonly isolation: string
  /** Tenants in each run. */
  readonly count: number
  readonly baseline: (owner: pg.Client, url: string, name: string) => Promise<void>
  readonly against: string
  readonly goals: { readonly service?: number; readonly driver?: number }
}

async function measured(
  say: Bench['say'],
  tenancy: Tenancy,
  url: string,
  { isolation, count, baseline, against, goals }: Comparing,
): Promise<Result[]> {
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  const driver = tenancy.tenants.storage.driver(isolation)
  let round = 0
  const rate = (what: string, work: (ids: readonly string[]) => Promise<unknown>) => async () => {
    const prefix = `${what}${round++}`
    const ids = Array.from({ length: count }, (_, n) => `${prefix}-${n}`)
    const perSecond = (count / (await timed(() => work(ids)))) * 1_000
    say(`${isolation}, ${what}: ${Math.round(perSecond)}/s`)
    return perSecond
  }
  const reference = rate('baseline', async (ids) => {
    for (const id of ids) await baseline(owner, url, id)
  })
  const sides = {
    service: rate('service', (ids) => Promise.all(ids.map((id) => installAll(tenancy, [id])))),
    driver: rate('driver', async (ids) => {
      for (const tenantId of ids) {
        const locator = driver.locator(tenantId, 1)
        await driver.provision({ tenantId, isolation, placement: 'main', locator, epoch: 1 })
      }
    }),
  }
  const titles = { service: 'create to active', driver: 'provisioning by the driver' }
  const results: Result[] = []
  try {
    for (const what of ['service', 'driver'] as const) {
      const both = await compare(RUNS, sides[what], reference)
      results.push({
        name: `${titles[what]}, ${isolation}, 5 tables`,
        against,
        unit: 'tenants/s',
        ...both,
        ratio: both.ours / both.reference,
        ...(goals[what] === undefined ? {} : { goal: goals[what] }),
      })
    }
    return results
  } finally {
    await owner.end()
  }
}

async function baselineSchema(owner: pg.Client, _url: string, name: string): Promise<void> {
  await owner.query(`begin; create schema "${name}"; set local search_path = "${name}"; ${FIVE_TABLES}; commit`)
}

async function baselineDatabase(owner: pg.Client, url: string, name: string): Promise<void> {
  await owner.query(`create database "${name}" template template0 strategy wal_log`)
  const own = new URL(url)
  own.pathname = name
  const client = new pg.Client({ connectionString: own.href })
  await client.connect()
  await client.query(`begin; create schema tenant; set local search_path = tenant; ${FIVE_TABLES}; commit`)
  await client.end()
}

/** A tenant without storage to create: the cost of registry and job. */
async function inSharedTables(tenancy: Tenancy, count: number): Promise<Result> {
  const rates: number[] = []
  for (let round = 0; round < RUNS; round++) {
    const ids = Array.from({ length: count }, (_, n) => `${tenantId(n)}-${round}`)
    rates.push((count / (await timed(() => installAll(tenancy, ids)))) * 1_000)
  }
  return { name: 'create to active, rowscope-pg', value: `${Math.round(median(rates))} tenants/s` }
}
