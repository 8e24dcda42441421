import { CompiledQuery } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { recorded } from '../../../test/support/recorded.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { InstallTenant } from '../tenant/job-types.ts'

let opened: TestTenancy<[]>
let clock: FakeClock

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', clock })
})
afterAll(() => opened.end())

const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const schemasOf = async (id: string): Promise<number> =>
  (await sql('select count(*) as count from pg_namespace where nspname = $1', [`t1_${id}`]))[0].count
const settled = (id: string) => opened.tenancy.tenants.waitUntilInstalled(id, AbortSignal.timeout(20_000))

test('retries an installation that has lost its connection during a migration', async () => {
  let attempts = 0
  const unlucky: TenantMigration = {
    name: '0001_unlucky',
    checksum: '',
    async up(db) {
      if (++attempts === 1) await db.executeQuery(CompiledQuery.raw('select pg_terminate_backend(pg_backend_pid())'))
      await db.schema.createTable('notes').execute()
    },
  }
  const { tenants } = await opened.open({ migrations: [unlucky] })
  const { id } = await tenants.create({ name: 'Unlucky' })
  const lost = tenants.installation.install(id, { isLast: false })
  await expect(lost).rejects.toSatisfy(isDatabaseUnavailable)
  expect((await tenants.get(id)).status).toBe('provisioning')
  await tenants.installation.install(id, { isLast: false })
  expect((await tenants.get(id)).status).toBe('active')
})

describe('a lost installation', () => {
  test('fails one minute after its last attempt was lost, and can be started again', async () => {
    const { tenants, kernel } = opened.tenancy
    const published = recorded(opened.tenancy)
    await tenants.create({ id: 'lost', name: 'Lost' })
    await tenants.create({ id: 'waiting', name: 'Waiting' })
    await kernel.jobs.cancel(InstallTenant, 'lost')
    clock.advance(59_000)
    await tenants.installation.recover()
    expect((await tenants.get('lost')).status).toBe('provisioning')
    clock.advance(2_000)
    await Promise.all([tenants.installation.recover(), tenants.installation.recover()])
    expect(await tenants.get('lost')).toMatchObject({ status: 'failed', failure: { code: 'E_INSTALLATION_LOST' } })
    expect(published.of('lost').slice(2)).toEqual(['tenants.install', 'TenantProvisioningFailed'])
    expect((await tenants.get('waiting')).status).toBe('provisioning')

    const worker = await opened.open({ role: 'worker' })
    await worker.tenants.activate('lost')
    expect((await settled('lost')).status).toBe('active')
    expect((await settled('waiting')).status).toBe('active')
    await worker.stop()
  })

  test.each([
    ['continues after the purge of its tenant', 'late', false],
    ['is killed after the purge of its tenant and run again', 'later', true],
  ])('leaves no storage if it %s', async (_words, id, isKilled) => {
    const { tenants } = opened.tenancy
    const reached = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const driver = schemaPg()
    const slow: IsolationDriver = {
      ...driver,
      async provision(location) {
        reached.resolve()
        await gate.promise
        const applied = await driver.provision(location)
        if (isKilled) throw new Error('the installation was killed')
        return applied
      },
    }
    const worker = await opened.open({ isolation: [slow] })
    await tenants.create({ id, name: 'Late' })
    const installation = worker.tenants.installation.install(id, { isLast: false })
    await reached.promise
    await tenants.delete(id)
    clock.advance(31 * 86_400_000)
    await tenants.installation.purge(id)
    gate.resolve()
    if (isKilled) {
      await expect(installation).rejects.toThrow('was killed')
      await tenants.installation.install(id, { isLast: false })
    } else await installation
    expect(await schemasOf(id)).toBe(0)
  })
})
