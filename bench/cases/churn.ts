/**
 * Benchmark of more tenants than connections: 100 tenants, 50 connections, 50 statements in flight for random tenants.
 * With a database for each tenant, connections are closed for other tenants; that driver also runs with 300 tenants in
 * a Zipf distribution.
 */
import type { Tenancy } from '../../src/index.ts'
import { type Bench, median, perSecond, type Result, RUNS } from '../measure.ts'
import {
  anyFolder,
  anyTenant,
  DATABASE,
  fillNotes,
  optionsFor,
  ROWSCOPE,
  SCHEMA,
  tenantId,
  type Way,
} from '../notes.ts'
import { withTenancy } from '../tenancy.ts'

const CONNECTIONS = 50
const GOAL = 'at least 700, ten times the closest package'

export const churn = {
  name: 'churn',
  async run(bench: Bench): Promise<Result[]> {
    const results: Result[] = []
    for (const way of [ROWSCOPE, SCHEMA, DATABASE]) results.push(...(await measured(bench, way)))
    return results
  },
}

const measured = (bench: Bench, way: Way): Promise<Result[]> => {
  const { postgresUrl, quick } = bench
  const tenants = quick ? 20 : 100
  const databases = way === DATABASE ? (quick ? 40 : 300) : tenants
  const connections = quick ? 10 : CONNECTIONS
  return withTenancy(
    postgresUrl,
    async (tenancy, url) => {
      await fillNotes(tenancy, url, databases)
      const name = `churn, ${way.name}, ${tenants} tenants, ${connections} connections`
      const uniform = await run(bench, name, way, tenancy, connections, () => anyTenant(tenants))
      const results: Result[] = [{ name, value: shown(uniform), goal: GOAL }]
      if (way !== DATABASE) return results
      const zipf = zipfOf(databases)
      const skewed = `${way.name}, ${databases} databases by Zipf, ${connections} connections`
      const some = await run(bench, skewed, way, tenancy, connections, () => tenantId(zipf()))
      return [...results, { name: skewed, value: shown(some) }]
    },
    {
      ...optionsFor(way),
      placements: {
        main: { connections: { max: connections, perTenant: connections, queuePerTenant: 1_000, waitMs: 60_000 } },
      },
    },
  )
}

interface Seen {
  readonly perSecond: number
  /** Share of statements that ran on an open connection. */
  readonly hits: number
}

const shown = ({ perSecond, hits }: Seen): string =>
  `${Math.round(perSecond)} statements/s, ${(hits * 100).toFixed(1)} % on an open connection`

async function run(
  { quick, say }: Bench,
  name: string,
  way: Way,
  tenancy: Tenancy,
  connections: number,
  choose: () => string,
): Promise<Seen> {
  let statements = 0
  const read = async () => {
    const { pool } = await tenancy.tenant(choose())
    await pool.query(way.statement(''), [anyFolder()])
    statements++
  }
  const rates: number[] = []
  await perSecond(connections, quick ? 200 : 2_000, read)
  statements = 0
  const before = await sessions(tenancy)
  for (let round = 0; round < RUNS; round++) {
    const rate = await perSecond(connections, quick ? 300 : 3_000, read)
    say(`${name}: ${Math.round(rate)} statements/s`)
    rates.push(rate)
  }
  const made = (await sessions(tenancy)) - before
  return { perSecond: median(rates), hits: Math.max(0, 1 - made / statements) }
}

/**
 * Sessions that the server has started for tenants' databases. No session of another database starts during the
 * measurement.
 */
async function sessions({ kernel }: Tenancy): Promise<number> {
  const { rows } = await kernel.database.sql('select sum(sessions)::int as sessions from pg_stat_database')
  return rows[0].sessions
}

/** Picks the n-th of `count` items with a weight of 1/n. */
function zipfOf(count: number): () => number {
  const sums: number[] = []
  let sum = 0
  for (let n = 1; n <= count; n++) {
    sum += 1 / n
    sums.push(sum)
  }
  return () => {
    const at = Math.random() * sum
    return sums.findIndex((one) => one >= at)
  }
}
