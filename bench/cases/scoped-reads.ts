/**
 * Benchmark of one indexed SELECT of 20 rows in a tenant's scope, without HTTP, against the same unprotected SELECT
 * with the tenant in its predicate.
 *
 * - The statement is unnamed, as hosts write it; a named one is reported for information.
 * - With 2 ms of network delay, the scope must not cost a round trip.
 */
import pg from 'pg'
import type { Tenancy } from '../../src/index.ts'
import { alternate, type Bench, perSecond, type Result, RUNS } from '../measure.ts'
import {
  anyFolder,
  anyTenant,
  fillNotes,
  optionsFor,
  ROWSCOPE,
  SCHEMA,
  SCHEMA_QUALIFIED,
  UNPROTECTED,
  type Way,
} from '../notes.ts'
import { openSlowNetwork } from '../slow-network.ts'
import { openTenancy, withTenancy } from '../tenancy.ts'

const IN_FLIGHT = 10
const NETWORK_MS = 2
const GOALS = new Map([
  [ROWSCOPE, 0.85],
  [SCHEMA, 0.85],
  [SCHEMA_QUALIFIED, 1.15],
])
const NETWORK_GOAL = 0.9

export const scopedReads = {
  name: 'scoped reads',
  async run(bench: Bench): Promise<Result[]> {
    const results: Result[] = []
    for (const [way, goal] of GOALS) results.push(...(await measured(bench, way, goal)))
    return results
  },
}

const measured = ({ postgresUrl, quick, say }: Bench, way: Way, goal: number): Promise<Result[]> => {
  return withTenancy(
    postgresUrl,
    async (tenancy, url) => {
      await fillNotes(tenancy, url)
      const ms = quick ? 300 : 3_000
      const throughput = (name: string, read: () => Promise<unknown>) => async () => {
        const reads = await perSecond(IN_FLIGHT, ms, read)
        say(`${name}: ${Math.round(reads)} reads/s`)
        return reads
      }
      const pool = new pg.Pool({ connectionString: url, max: IN_FLIGHT })
      const near = await compared(way, throughput, tenancy, pool)
      const transactions = way.inTransactions && (await inTransactions(way, url, throughput))
      await pool.end()
      const far = await farAway(way, url, throughput)

      const against = (name: string, side: 'unnamed' | 'named', one: typeof near, wanted?: number) => ({
        name: `scoped read, ${way.name}${name}`,
        against: `the same SELECT unprotected${side === 'named' ? ', named' : ''}`,
        unit: 'reads/s',
        ours: one.ours,
        reference: one[side],
        ratio: one.ours / one[side],
        ...(wanted === undefined ? {} : { goal: wanted }),
      })
      return [
        against('', 'unnamed', near, goal),
        against('', 'named', near),
        ...(transactions === undefined
          ? []
          : [against(', BEGIN and COMMIT around each', 'unnamed', { ...near, ours: transactions })]),
        against(`, ${NETWORK_MS} ms of network`, 'unnamed', far, NETWORK_GOAL),
        against(`, ${NETWORK_MS} ms of network`, 'named', far),
      ]
    },
    optionsFor(way),
  )
}

type Throughput = (name: string, read: () => Promise<unknown>) => () => Promise<number>

async function compared(way: Way, throughput: Throughput, tenancy: Tenancy, pool: pg.Pool) {
  const sides = {
    unnamed: throughput('unprotected', () => pool.query(UNPROTECTED, [anyTenant(), anyFolder()])),
    ours: throughput(way.name, await reader(way, tenancy)),
    named: throughput('unprotected, named', () =>
      pool.query({ name: 'notes', text: UNPROTECTED, values: [anyTenant(), anyFolder()] }),
    ),
  }
  for (const side of Object.values(sides)) await side()
  return alternate(RUNS, sides)
}

/** Returns a function that reads a folder of a random tenant through a handle that the host keeps. */
export async function reader(way: Way, tenancy: Tenancy): Promise<() => Promise<unknown>> {
  const located = new Map<string, { text: string; pool: pg.Pool }>()
  const { rows } = await tenancy.kernel.database.sql('select id, locator from multitenancy.tenants')
  for (const { id, locator } of rows) {
    located.set(id, { text: way.statement(locator), pool: (await tenancy.tenant(id)).pool })
  }
  return () => {
    const { text, pool } = located.get(anyTenant(located.size)) ?? { text: '', pool: undefined }
    if (!pool) throw new Error('the tenant does not exist')
    return pool.query(text, [anyFolder()])
  }
}

async function inTransactions(way: Way, url: string, throughput: Throughput): Promise<number | undefined> {
  if (!way.inTransactions) return undefined
  const tenancy = await openTenancy(url, optionsFor(way, way.inTransactions))
  try {
    const { ours } = await alternate(RUNS, {
      ours: throughput(`${way.name}, in transactions`, await reader(way, tenancy)),
    })
    return ours
  } finally {
    await tenancy.stop()
  }
}

/** Connects both sides through a proxy that delays each direction by half of the network time. */
async function farAway(way: Way, url: string, throughput: Throughput) {
  const network = await openSlowNetwork(url, NETWORK_MS / 2)
  const pool = new pg.Pool({ connectionString: network.url, max: IN_FLIGHT })
  const tenancy = await openTenancy(network.url, optionsFor(way))
  try {
    return await compared(way, throughput, tenancy, pool)
  } finally {
    await tenancy.stop()
    await pool.end()
    await network.close()
  }
}
