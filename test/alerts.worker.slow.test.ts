/** Alerts of a real Prometheus while no worker runs. */
import { afterAll, beforeAll, inject, test } from 'vitest'
import { createProgramDatabase } from '../src/cli/in-process.fixture.ts'
import type { TestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { type Drill, openDrill } from './alerts.fixture.ts'

let database: TestDatabase
let drill: Drill

beforeAll(async () => {
  database = await createProgramDatabase(inject('postgresUrl'))
  drill = await openDrill({ databaseUrl: database.url, role: 'api' })
}, 240_000)
afterAll(async () => {
  await drill?.end()
  await dropWithRoles(inject('postgresUrl'), database)
})

test('a missing worker fires TenantryNoWorker, and a new one resolves it', async () => {
  const worker = await drill.start('worker')
  await drill.run(
    'TenantryNoWorker',
    async () => {
      await worker.stop()
      await drill.call('POST', '/tenants', { id: 'acme', name: 'Acme' })
    },
    () => drill.start('worker'),
  )
}, 240_000)
