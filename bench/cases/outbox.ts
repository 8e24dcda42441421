/**
 * Benchmark of calls inside a tenant's transaction: the time from its COMMIT to the row of a delivery, entries that a
 * relay applies in a second, and the cost of one entry in a transaction that writes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { type Bench, median, type Result, timed } from '../measure.ts'
import { withWebhooks } from '../webhooks.ts'

const TENANT = 'acme'
const EVENT = 'invoice.paid'
const PAUSE_MS = 5
const insert = sql`insert into accounts (name) values ('Acme')`
const post = sql`select tenantry.post(gen_random_uuid(), 'webhooks.dispatch', '{"event": "none", "payload": {"n": 1}}')`

export const outbox = {
  name: 'outbox',
  run: ({ postgresUrl, quick }: Bench): Promise<Result[]> =>
    withWebhooks(postgresUrl, 0, {}, async (tenancy) => {
      const { database } = tenancy.kernel
      await tenancy.tenants.create({ id: TENANT, name: 'Acme' })
      await tenancy.tenants.waitUntilInstalled(TENANT, AbortSignal.timeout(20_000))
      const tenant = await tenancy.tenant(TENANT)
      await tenancy.webhooks.create(TENANT, { url: 'http://127.0.0.1:9/', events: [EVENT] })
      const count = quick ? 50 : 500

      const deliveries = async () =>
        (await database.sql('select count(*)::int as count from multitenancy.webhook_deliveries')).rows[0].count
      const delays: number[] = []
      for (let n = 1; n <= count; n++) {
        await tenant.transaction(() => tenancy.webhooks.dispatch(TENANT, EVENT, { n }))
        const committed = performance.now()
        while ((await deliveries()) < n) {}
        delays.push(performance.now() - committed)
        await sleep(PAUSE_MS)
      }

      const entries = quick ? 2_000 : 50_000
      await database.sql(
        `insert into tenantry.outbox (id, tenant, kind, payload)
         select uuidv7(), $1, 'webhooks.dispatch', '{"event": "none", "payload": {"n": 1}}' from generate_series(1, $2)`,
        [TENANT, entries],
      )
      const relayedMs = await timed(async () => {
        const first = 'select from tenantry.outbox order by seq limit 1'
        while ((await database.sql(first)).rows.length > 0) await sleep(PAUSE_MS)
      })

      await tenancy.tenants.outbox.stop() // measures the transactions only
      const plain: number[] = []
      const posting: number[] = []
      for (let n = 0; n < count; n++) {
        plain.push(await timed(() => tenant.transaction((db) => insert.execute(db))))
        posting.push(
          await timed(() =>
            tenant.transaction(async (db) => {
              await insert.execute(db)
              await post.execute(db)
            }),
          ),
        )
      }
      const at = (share: number) => delays.toSorted((a, b) => a - b)[Math.floor(share * (delays.length - 1))] ?? 0
      return [
        {
          name: 'call in a tenant’s transaction, COMMIT to delivery, idle',
          value: `${at(0.5).toFixed(1)} ms median, ${at(0.99).toFixed(1)} ms p99`,
          goal: at(0.5) <= 20 && at(0.99) <= 100 ? 'reached: 20 ms, 100 ms' : 'missed: 20 ms, 100 ms',
        },
        {
          name: 'entries of an outbox, one relay',
          value: `${Math.round(entries / (relayedMs / 1_000))} entries/s`,
          goal: entries / (relayedMs / 1_000) >= 10_000 ? 'reached: 10,000' : 'missed: 10,000',
        },
        {
          name: 'cost of an entry in a transaction',
          value: `${(median(posting) - median(plain)).toFixed(2)} ms`,
          goal: median(posting) - median(plain) <= 0.3 ? 'reached: 0.3 ms' : 'missed: 0.3 ms',
        },
      ]
    }),
}
