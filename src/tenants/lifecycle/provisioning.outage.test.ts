import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { onServer } from '../../testing/base/database.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { migrationFailure } from '../migrations/errors.ts'
import { failureOf } from '../tenant/failure.ts'
import { InstallTenant } from '../tenant/job-types.ts'

const NOTES: TenantMigration = { name: '0001_notes', checksum: '1', up: 'create table notes ()' }
/** The server reports the state from a statement of the migration, as it does on a full disk. */
const raising = (state: string): TenantMigration => ({ ...NOTES, up: `do $$ begin raise sqlstate '${state}'; end $$` })

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
})
afterAll(() => opened.end())

/** Creates a tenant without a job: the test runs the attempts. */
async function createWithoutJob(id: string): Promise<void> {
  const { tenants, kernel } = opened.tenancy
  await tenants.create({ id, name: id })
  await kernel.jobs.cancel(InstallTenant, id)
}

test.each([
  ['25006', 'database is read-only'],
  ['53100', 'disk is full'],
  ['53200', 'server is out of memory'],
  ['58030', 'I/O error of the server'],
])('an installation waits in a new job after SQLSTATE %s, also in its last attempt', async (state, reason) => {
  const { tenants, kernel } = opened.tenancy
  const id = `state-${state}`
  await createWithoutJob(id)
  const full = await opened.open({ role: 'api', migrations: [raising(state)] })
  for (const isLast of [false, true]) {
    await full.tenants.installation.install(id, { isLast })
    expect(await tenants.get(id)).toMatchObject({ status: 'provisioning', failure: null })
    expect(await kernel.jobs.counts(id)).toMatchObject([{ queue: 'tenantry.InstallTenant', delayed: 1, waiting: 0 }])
  }
  await tenants.installation.install(id, { isLast: true })
  expect(await tenants.get(id)).toMatchObject({ status: 'active', failure: null })

  const error = await kernel.database.sql(`do $$ begin raise sqlstate '${state}'; end $$`).catch((thrown) => thrown)
  const code = 'E_DEPENDENCY_UNAVAILABLE'
  const otherwise = { code: 'E_TRANSFER_FAILED', message: 'The transfer failed.' }
  expect(failureOf(error, otherwise)).toEqual({ code, message: `A database server cannot store data: ${reason}.` })
  expect(migrationFailure(error, 1_000)).toMatchObject({ code, isPassing: true })
  await full.stop()
})

test('an attempt fails without effect if the backoffice cannot store the new job, and the next one succeeds', async () => {
  const { tenants } = opened.tenancy
  const name = new URL(opened.url).pathname.slice(1)
  const setReadOnly = (value: 'on' | 'off') =>
    onServer(inject('postgresUrl'), async (server) => {
      await server.sql(`alter database ${name} set default_transaction_read_only = ${value}`)
      await server.sql('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [name])
    })
  await createWithoutJob('read-only')
  await setReadOnly('on')
  const rejected = tenants.installation.install('read-only', { isLast: true })
  await expect(rejected).rejects.toMatchObject({ code: '25006' })
  await setReadOnly('off')
  expect(await tenants.get('read-only')).toMatchObject({ status: 'provisioning', failure: null })
  await tenants.installation.install('read-only', { isLast: true })
  expect((await tenants.get('read-only')).status).toBe('active')
})
