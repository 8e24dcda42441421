/**
 * Benchmark of a migration run that adds one column to 2,000 schemas, against plain ALTERs over as many connections;
 * and of a run without pending migrations. Both sides open new connections, because a backend is slower with tables
 * that it has not used.
 */
import pg from 'pg'
import type { Tenancy, TenantMigration } from '../../src/index.ts'
import { forEachConcurrent } from '../../src/kernel/base/concurrency.ts'
import { type Bench, compare, median, type Result, RUNS, timed } from '../measure.ts'
import { FIVE_TABLES, installAll, migrations, openTenancy, withTenancy } from '../tenancy.ts'

/** Connections of each side; the default of a run. */
const CONNECTIONS = 4

export const migrating = {
  name: 'migrating',
  run: ({ postgresUrl, quick, say }: Bench): Promise<Result[]> =>
    withTenancy(postgresUrl, async (tenancy, url) => {
      const count = quick ? 40 : 2_000
      const ids = Array.from({ length: count }, (_, n) => `tenant-${n}`)
      const setup = new pg.Pool({ connectionString: url, max: CONNECTIONS })
      const idle: number[] = []
      const all: TenantMigration[] = [...migrations]

      const baseline = (round: number) => async () => {
        const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS })
        const ms = await timed(() =>
          forEachConcurrent(ids, CONNECTIONS, async (id) => {
            await pool.query(`alter table "bare-${id}".accounts add column c${round} text`)
          }),
        )
        await pool.end()
        say(`bare ALTERs: ${Math.round((count / ms) * 1_000)}/s`)
        return (count / ms) * 1_000
      }
      const ours = (round: number) => async () => {
        all.push({
          name: `000${round}_column`,
          checksum: 'bench',
          up: `alter table accounts add column c${round} text`,
        })
        const next = await openTenancy(url, { migrations: [...all], role: 'api' })
        try {
          const ms = await timed(() => migrated(next, count))
          say(`a run: ${Math.round((count / ms) * 1_000)}/s`)
          for (let again = 0; again < 3; again++) idle.push(await timed(() => migrated(next, 0)))
          return (count / ms) * 1_000
        } finally {
          await next.stop()
        }
      }
      try {
        await installAll(tenancy, ids)
        await forEachConcurrent(ids, CONNECTIONS, async (id) => {
          await setup.query(
            `begin; create schema "bare-${id}"; set local search_path = "bare-${id}"; ${FIVE_TABLES}; commit`,
          )
        })
        let round = 1
        const both = await compare(
          RUNS,
          () => ours(++round)(),
          () => baseline(++round)(),
        )
        return [
          {
            name: `migrating ${count} schemas, one column`,
            against: 'bare ALTERs in parallel',
            unit: 'schemas/s',
            ...both,
            ratio: both.ours / both.reference,
            goal: 0.8,
          },
          {
            name: `migration run over ${count} schemas, none pending`,
            value: `${median(idle).toFixed(1)} ms`,
            goal: 'under 100 ms',
          },
        ]
      } finally {
        await setup.end()
      }
    }),
}

async function migrated({ tenants }: Tenancy, expected: number): Promise<void> {
  const { state, done } = await tenants.migrations.run({ concurrency: CONNECTIONS })
  if (state !== 'completed' || done !== expected) throw new Error(`${state}, ${done} of ${expected} done`)
}
