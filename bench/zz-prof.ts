import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DeliveryQueue } from '../src/satellites/webhooks/queue.ts'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { serve } from './serve.ts'
import { PAYLOAD, withWebhooks } from './webhooks.ts'

const directory = mkdtempSync(join(tmpdir(), 'tenantry-bench-'))
const server = await startEmbeddedPostgres({
  directory: join(directory, 'postgres'),
  password: 'bench',
  settings: { max_connections: '300', shared_buffers: '256MB' },
})
const receiver = await serve('webhook-receiver', {})
const med = (v: number[]) => v.toSorted((a, b) => a - b)[Math.floor(v.length / 2)]!.toFixed(2)
try {
  await withWebhooks(server.url, 1, {}, async (tenancy) => {
    await tenancy.webhooks.stop()
    const db = tenancy.kernel.database
    await tenancy.webhooks.create('tenant-1', { url: `${receiver.url}/x`, events: ['*'] })
    const queue = new DeliveryQueue(db, tenancy.kernel.clock)
    const d: number[] = [],
      c: number[] = [],
      s: number[] = [],
      one: number[] = [],
      ins: number[] = [],
      e: number[] = []
    await db.sql('create table if not exists multitenancy.zz (id int)')
    for (let n = 0; n < 300; n++) {
      let t = performance.now()
      await db.sql({ name: 'one', text: 'select 1' })
      one.push(performance.now() - t)
      t = performance.now()
      await db.sql({ name: 'ins', text: 'insert into multitenancy.zz values (1)' })
      ins.push(performance.now() - t)
      t = performance.now()
      await tenancy.webhooks.dispatch('tenant-1', 'invoice.paid', PAYLOAD)
      d.push(performance.now() - t)
      const wish = {
        claim: randomUUID(),
        wanted: 200,
        leaseMs: 30000,
        perSubscription: 100,
        perTenant: 100,
        afterTenant: '',
        onlyWebhook: null,
      }
      t = performance.now()
      const got = await queue.claim(wish)
      c.push(performance.now() - t)
      t = performance.now()
      await queue.claim({ ...wish, claim: randomUUID() })
      e.push(performance.now() - t)
      t = performance.now()
      await queue.settle(
        got.deliveries.map((delivery) => ({
          delivery,
          verdict: { state: 'delivered' as const, delayMs: null, disables: null },
          status: 200,
          error: null,
          isBlamed: false,
          startedMs: Date.now(),
          durationMs: 3,
          address: '127.0.0.1',
          requestHeaders: '{}',
          responseHeaders: '{}',
          responseBody: '',
        })),
      )
      s.push(performance.now() - t)
    }
    console.log(
      'select 1',
      med(one),
      'insert',
      med(ins),
      'dispatch',
      med(d),
      'claim',
      med(c),
      'empty claim',
      med(e),
      'settle',
      med(s),
    )
  })
} finally {
  await receiver.close()
  await server.stop()
  rmSync(directory, { recursive: true, force: true })
}
