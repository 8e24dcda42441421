/**
 * Benchmark of the receiver of payment events against a plain Hono route that verifies the signature and inserts one
 * row.
 *
 * - The receiver stores each event once, without personal data, with the job that processes it.
 * - 64 requests are in flight on persistent connections. Each side is a process with ten connections to the same
 *   PostgreSQL server.
 */
import { type Bench, compare, type Result, RUNS } from '../measure.ts'
import { eventsPerSecond, withSigner } from '../provider-events.ts'
import { type Served, serve } from '../serve.ts'
import { withTenancy } from '../tenancy.ts'

const GOAL = 0.6

export const billingReceiver = {
  name: 'billing receiver',
  run: ({ postgresUrl, quick, say }: Bench): Promise<Result[]> =>
    withTenancy(
      postgresUrl,
      async ({ kernel: { database } }, url) => {
        await database.sql(
          `create table public.bare_events (
             event_id text primary key, type text not null, payload jsonb not null, received_at timestamptz not null default now())`,
        )
        const ours = await serve('billing-receiver', { DATABASE_URL: url })
        const baseline = await serve('baseline-receiver', { DATABASE_URL: url })
        let sent = 0
        try {
          return await withSigner(async (sign) => {
            const load = (side: 'ours' | 'baseline', server: Served) => async () => {
              const events = sign(quick ? 500 : 5_000)
              const before = server.cpuMs()
              const rate = await eventsPerSecond(server.url, events)
              const cpuMicros = ((server.cpuMs() - before) / events.length) * 1_000
              say(`${side}: ${Math.round(rate)} events/s, ${Math.round(cpuMicros)} µs of CPU each`)
              if (side === 'ours') sent += events.length
              return rate
            }
            const [measureOurs, measureBaseline] = [load('ours', ours), load('baseline', baseline)]
            await measureOurs()
            await measureBaseline()
            const measured = await compare(RUNS, measureOurs, measureBaseline)
            const { rows } = await database.sql(
              `select (select count(*) from multitenancy.billing_inbox) as events, (select count(*)
                 from multitenancy_jobs.job where name = 'tenantry.ProcessProviderEvent') as jobs`,
            )
            if (rows[0].events !== sent || rows[0].jobs !== sent) throw new Error('an event or its job is missing')
            return [
              {
                name: 'receipt of payment provider events',
                against: 'a bare route: signature, one insert',
                unit: 'events/s',
                ...measured,
                ratio: measured.ours / measured.reference,
                goal: GOAL,
              },
            ]
          })
        } finally {
          await ours.close()
          await baseline.close()
        }
      },
      { role: 'api' },
    ),
}
