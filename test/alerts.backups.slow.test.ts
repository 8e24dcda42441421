/** Alerts of a real Prometheus while backups fail. */
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createProgramDatabase } from '../src/cli/in-process.fixture.ts'
import type { TestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { type Drill, openDrill } from './alerts.fixture.ts'

let database: TestDatabase
let drill: Drill

beforeAll(async () => {
  database = await createProgramDatabase(inject('postgresUrl'))
  drill = await openDrill({
    databaseUrl: database.url,
    config: { backups: { directory: 'archives', everyHours: 24 } },
  })
  await drill.call('POST', '/tenants', { id: 'acme', name: 'Acme' })
  await eventually(async () => expect(await drill.call('GET', '/tenants/acme')).toMatchObject({ status: 'active' }))
}, 240_000)
afterAll(async () => {
  await drill?.end()
  await dropWithRoles(inject('postgresUrl'), database)
})

test('failing backups fire TenantryBackupsFail, and a backup resolves it', async () => {
  const archives = join(drill.directory, 'archives')
  const backUp = () => drill.call('POST', '/tenants/acme/backup', {})
  await backUp()
  await eventually(async () => expect(await states()).toEqual(['completed']))
  await drill.run(
    'TenantryBackupsFail',
    async () => {
      await rename(archives, `${archives}.aside`)
      await writeFile(archives, 'a file')
      await backUp()
      await eventually(async () => {
        await makeLastAttempt()
        expect(await states()).toEqual(['failed', 'completed'])
      })
    },
    async () => {
      await rm(archives)
      await rename(`${archives}.aside`, archives)
      await backUp()
    },
  )
}, 240_000)

/** Newest first. */
const states = async () => (await drill.call('GET', '/tenants/acme/backups')).data.map(({ state }: any) => state)

/** Retries take minutes. */
const makeLastAttempt = () =>
  drill.service.tenancy.kernel.database.sql(
    `update multitenancy_jobs.job set retry_count = retry_limit, start_after = now()
     where name = 'tenantry.BackupTenant' and state = 'retry'`,
  )
