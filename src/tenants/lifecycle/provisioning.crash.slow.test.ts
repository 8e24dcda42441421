import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startChild } from '../../../test/support/child.ts'
import { startProxy } from '../../../test/support/proxy.ts'
import { recorded } from '../../../test/support/recorded.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantMigration } from '../isolation/migrations.ts'

const WORKER = new URL('./worker-process.fixture.ts', import.meta.url)
/** The queue detects the job of a killed worker by its heartbeat (15 s), with checks every 10 s. */
const MISSED_WITHIN_MS = 60_000

let opened: TestTenancy<[]>

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => opened.end())

const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const schemasOf = async (id: string): Promise<number> =>
  (await sql('select count(*) as count from pg_namespace where nspname = $1', [`t1_${id}`]))[0].count
const settled = (id: string) => opened.tenancy.tenants.waitUntilInstalled(id, AbortSignal.timeout(20_000))

test('an installation is completed after its worker was killed with SIGKILL', async () => {
  const { tenants } = opened.tenancy
  const endless = { name: '0001_notes', checksum: '', up: 'create table notes (); select pg_sleep(3600)' }
  const sleeping = `select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
  const doomed = await startChild(WORKER, { url: opened.url, migrations: [endless] })
  await tenants.create({ id: 'orphan', name: 'Orphan' })
  await eventually(async () => expect(await sql(sleeping)).toHaveLength(1))
  await doomed.kill('SIGKILL')
  expect(await schemasOf('orphan')).toBe(0)
  expect((await tenants.get('orphan')).status).toBe('provisioning')

  const notes: TenantMigration = { name: '0001_notes', checksum: '', up: 'create table notes ()' }
  const other = await opened.open({ role: 'worker', migrations: [notes] })
  const published = recorded(other)
  const statuses = new Set<string>()
  await eventually(async () => {
    const { status } = await tenants.get('orphan')
    statuses.add(status)
    expect(status).toBe('active')
  }, MISSED_WITHIN_MS)
  expect([...statuses]).toEqual(['provisioning', 'active'])
  expect(await published.until('orphan', 'TenantMigrated')).toEqual([
    'tenants.install',
    'TenantProvisioned',
    'TenantMigrated',
  ])
  const { db } = await other.tenant('orphan')
  expect(await db.selectFrom('notes').selectAll().execute()).toEqual([])
  await other.stop()
})

describe('installation on a server that refuses connections', () => {
  let far: TestDatabase
  beforeAll(async () => {
    far = await createTestDatabase(inject('postgresUrl'))
  })
  afterAll(() => far.drop())

  test('is retried until the server is available, and fails if it remains unavailable', async () => {
    const proxy = await startProxy(far.url)
    const worker = await opened.open({ placements: { far: { url: proxy.url } }, role: 'worker' })
    const { tenants, kernel } = worker
    try {
      await proxy.close()
      const { id } = await tenants.create({ name: 'Remote', placement: 'far' })
      await eventually(async () => expect(await kernel.jobs.counts(id)).toMatchObject([{ delayed: 1, failed: 0 }]))
      expect(await tenants.get(id)).toMatchObject({ status: 'provisioning', placement: 'far' })
      await proxy.open()
      expect((await settled(id)).status).toBe('active')

      await proxy.close()
      const { id: hopeless } = await tenants.create({ name: 'Hopeless', placement: 'far' })
      await tenants.installation.install(hopeless, { isLast: true })
      expect(await tenants.get(hopeless)).toMatchObject({
        status: 'failed',
        failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
      })
    } finally {
      await worker.stop()
      await proxy.close()
    }
  })
})
