/**
 * Main benchmark: guarded tenant reads over HTTP against the same route and query without tenancy, with equal numbers
 * of connections.
 *
 * A read is the tenant of a header, the guard, and one indexed SELECT of 20 rows (50 tenants with 200 rows each). Each
 * side is a process; one load generator has 25 connections, each of which requests all tenants in its own order.
 */
import { type Bench, compare, type Result, RUNS } from '../measure.ts'
import { fillNotes, optionsFor, SCHEMA_QUALIFIED, WAYS, type Way } from '../notes.ts'
import { requestsPerSecond } from '../requests-per-second.ts'
import { type Served, serve } from '../serve.ts'
import { withTenancy } from '../tenancy.ts'

const GOAL = 0.85
/** Raw SQL cannot name the schema of a tenant; Kysely adds it. */
const librariesFor = (way: Way) => (way === SCHEMA_QUALIFIED ? ['kysely'] : ['pg', 'kysely'])

export const guardedReads = {
  name: 'guarded reads',
  async run(bench: Bench): Promise<Result[]> {
    const results: Result[] = []
    for (const way of WAYS) results.push(...(await measured(bench, way)))
    return results
  },
}

const measured = ({ postgresUrl, quick, say }: Bench, way: Way): Promise<Result[]> =>
  withTenancy(
    postgresUrl,
    async (tenancy, url) => {
      await fillNotes(tenancy, url)
      const results: Result[] = []
      for (const library of librariesFor(way)) {
        const environment = {
          DATABASE_URL: url,
          WAY: way.name,
          LIBRARY: library,
          CONNECTIONS: String(way.connections),
        }
        const ours = await serve('guarded-read', environment)
        const plain = await serve('plain-read', environment)
        const load = (side: 'ours' | 'plain', server: Served) => async () => {
          const { average, cpuMicros } = await requestsPerSecond(server, quick ? 1 : 4)
          say(
            `${way.name}, ${library}, ${side}: ${Math.round(average)} requests/s, ${Math.round(cpuMicros)} µs of CPU each`,
          )
          return average
        }
        try {
          await load('ours', ours)()
          await load('plain', plain)()
          const both = await compare(RUNS, load('ours', ours), load('plain', plain))
          results.push({
            name: `guarded read over HTTP, ${way.name}${library === 'kysely' ? ', Kysely' : ''}`,
            against: 'the same route without tenancy',
            unit: 'requests/s',
            ...both,
            ratio: both.ours / both.reference,
            ...(library === 'pg' ? { goal: GOAL } : {}),
          })
        } finally {
          await ours.close()
          await plain.close()
        }
      }
      return results
    },
    optionsFor(way),
  )
