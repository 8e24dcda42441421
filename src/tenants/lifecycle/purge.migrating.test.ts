/** A purge of a tenant while a migration run records its result. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { Database } from '../../kernel/database/database.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { MigrationItems } from '../migrations/items.ts'
import type { MigrationRun } from '../migrations/model/run.ts'

const LONG_MS = 60_000
const clock = fakeClock()

let opened: TestTenancy<[]>
/** A separate connection outside of transactions. */
let beside: Database

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', clock })
  beside = opened.tenancy.kernel.database.apart(2)
})
afterAll(async () => {
  await beside.close()
  await opened.end()
})

test('purge and recorded result of a migration do not deadlock; the purge removes the migration item', async () => {
  const { tenants, kernel } = opened.tenancy
  const { database } = kernel
  await tenants.create({ id: 'acme', name: 'Acme', domains: ['acme.example'] })
  await tenants.installation.install('acme', { isLast: true })
  const run: MigrationRun = {
    ...{ id: uuidv7(), direction: 'up', steps: null, scope: 'all', target: 'v', state: 'running', isCancelled: false },
    ...{ isBackground: false, actor: null, requestId: null, counts: null },
    ...{ retries: 0, lockTimeoutMs: 1_000, stopAfterFailures: null, createdAt: new Date(), finishedAt: null },
  }
  await database.sql(
    `insert into multitenancy.migration_runs (id, direction, scope, target, state, retries, lock_timeout_ms, worked_until, created_at)
     values ($1, 'up', 'all', 'v', 'running', 0, 1000, now(), now())`,
    [run.id],
  )
  await database.sql(
    `insert into multitenancy.migration_items (run_id, storage, tenant_id, isolation, placement)
     select $1, id, id, isolation, placement from multitenancy.tenants`,
    [run.id],
  )
  const items = new MigrationItems(beside, run, LONG_MS)
  expect(await items.claim(1)).toHaveLength(1)
  await tenants.delete('acme')
  clock.advance(31 * 86_400_000)
  const waiting = async (count: number) =>
    eventually(async () => {
      const { rows } = await beside.sql(`select count(*) as count from ${WAITING_LOCKS}`)
      expect(rows[0].count).toBe(count)
    })
  const held = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const holding = database.transaction(async () => {
    await database.sql('select from multitenancy.tenant_domains for update')
    held.resolve()
    await gate.promise
  })
  await held.promise
  const purging = tenants.installation.purge('acme')
  await waiting(1) // in its last transaction
  const settling = items.record([
    {
      ...{ storage: 'acme', state: 'done', migrations: ['0001_x'], error: null, durationMs: 1, delayMs: 0 },
      versioned: { tenantId: 'acme', epoch: 1, version: 'v' },
    },
  ])
  await waiting(2)
  gate.resolve()
  await holding
  expect(await Promise.allSettled([purging, settling])).toEqual([
    { status: 'fulfilled', value: true },
    { status: 'fulfilled', value: new Set() },
  ])
})
