/**
 * Benchmark of the first query of a tenant in a process: reading the registry, creating the handle, and tables that are
 * new to the session.
 *
 * - Reference: a checkout from a plain pool and the same query. That is one statement; a cold tenant needs two.
 * - With a database for each tenant the reference is a new connection and the query.
 */
import pg from 'pg'
import type { Tenancy } from '../../src/index.ts'
import { alternate, type Bench, compare, median, type Result, RUNS, timed } from '../measure.ts'
import {
  DATABASE,
  fillNotes,
  optionsFor,
  ROWSCOPE,
  SCHEMA,
  select,
  TENANTS,
  tenantId,
  UNPROTECTED,
  type Way,
} from '../notes.ts'
import { openTenancy, withTenancy } from '../tenancy.ts'

const FOLDER = 3

export const coldTenants = {
  name: 'cold tenants',
  async run(bench: Bench): Promise<Result[]> {
    const results: Result[] = []
    for (const way of [ROWSCOPE, SCHEMA, DATABASE]) results.push(...(await measured(bench, way)))
    return results
  },
}

const measured = ({ postgresUrl, quick }: Bench, way: Way): Promise<Result[]> =>
  withTenancy(
    postgresUrl,
    async (tenancy, url) => {
      await fillNotes(tenancy, url)
      const ids = Array.from({ length: quick ? 10 : TENANTS }, (_, n) => tenantId(n))
      const against = (name: string, sides: { ours: number; reference: number }, goal?: number): Result => ({
        name: `first query of a cold tenant, ${way.name}`,
        against: name,
        unit: 'ms',
        ...sides,
        ratio: sides.reference / sides.ours,
        ...(goal === undefined ? {} : { goal }),
      })
      const ours = firstQueries(way, url, ids)
      if (way === DATABASE) {
        const baseline = await baselineConnections(tenancy, url, ids)
        return [against('a bare connection and the query', await compare(RUNS, ours, baseline), 0.8)]
      }
      const { first, ...others } = await alternate(RUNS, {
        checkout: checkouts(url, ids),
        first: ours,
        connection: newConnections(ids, () => url, UNPROTECTED),
      })
      return [
        against('a plain checkout and the query', { ours: first, reference: others.checkout }),
        against('a new connection and the query', { ours: first, reference: others.connection }),
      ]
    },
    optionsFor(way),
  )

/** Each run uses a tenancy that has only used the first tenant. */
const firstQueries = (way: Way, url: string, ids: readonly string[]) => async (): Promise<number> => {
  const tenancy = await openTenancy(url, { ...optionsFor(way), role: 'api' })
  const read = async (id: string) => {
    const { pool } = await tenancy.tenant(id)
    await pool.query(select('notes'), [FOLDER])
  }
  try {
    return await medianMs(ids, read)
  } finally {
    await tenancy.stop()
  }
}

const checkouts = (url: string, ids: readonly string[]) => async (): Promise<number> => {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const read = async (id: string) => {
    const client = await pool.connect()
    await client.query(UNPROTECTED, [id, FOLDER])
    client.release()
  }
  try {
    return await medianMs(ids, read)
  } finally {
    await pool.end()
  }
}

async function baselineConnections({ kernel }: Tenancy, url: string, ids: readonly string[]) {
  const { rows } = await kernel.database.sql('select id, locator from multitenancy.tenants')
  const databases = new Map<string, string>(rows.map(({ id, locator }) => [id, locator]))
  const urlOf = (id: string): string => {
    const own = new URL(url)
    own.pathname = databases.get(id) ?? ''
    return own.href
  }
  return newConnections(ids, urlOf, select('tenant.notes'))
}

/** @param statement with the folder as its last parameter, preceded by the tenant if it names one. */
const newConnections =
  (ids: readonly string[], urlOf: (id: string) => string, statement: string) => async (): Promise<number> => {
    const clients: pg.Client[] = []
    const read = async (id: string) => {
      const client = new pg.Client({ connectionString: urlOf(id) })
      clients.push(client)
      await client.connect()
      await client.query(statement, statement === UNPROTECTED ? [id, FOLDER] : [FOLDER])
    }
    try {
      return await medianMs(ids, read)
    } finally {
      await Promise.all(clients.map((client) => client.end()))
    }
  }

/** Median of all runs except the first, which warms up state that tenants share. */
async function medianMs([first = '', ...others]: readonly string[], read: (id: string) => Promise<void>) {
  await read(first)
  const times: number[] = []
  for (const id of others) times.push(await timed(() => read(id)))
  return median(times)
}
