/** A background run whose worker is killed with SIGKILL: another worker continues it, and each tenant is migrated once. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantMigration } from '../isolation/migrations.ts'

const WORKER = new URL('../lifecycle/worker-process.fixture.ts', import.meta.url)
const IDS = Array.from({ length: 30 }, (_, index) => `m-${String(index).padStart(2, '0')}`)
const LIMIT_MS = 120_000
const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (body text)' }
/** The migration of m-17 waits while the table has a row. */
const NOTED: TenantMigration = {
  name: '0002_noted',
  checksum: '2',
  up: `create table noted (); insert into public.ran select current_schema();
       do $$ begin if current_schema() = 't1_m-17' and exists (select from public.stuck) then perform pg_sleep(3600); end if; end $$`,
}
const migrations = [NOTES, NOTED]
const WAITING = `select count(*) as count from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`

let opened: TestTenancy<[]>
const children: Child[] = []
const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const worker = async (): Promise<Child> => {
  const child = await startChild(WORKER, { url: opened.url, migrations })
  children.push(child)
  return child
}

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
  await sql('create table public.ran (schema text)')
  await sql('create table public.stuck ()')
  const { tenants } = opened.tenancy
  for (const id of IDS) {
    await tenants.create({ id, name: id })
    await tenants.installation.install(id, { isLast: true })
  }
  await sql('delete from multitenancy_jobs.job')
})
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill('SIGKILL')))
})
afterAll(() => opened.end())

test('a run of a killed worker is continued by another worker, and each tenant is migrated once', {
  timeout: LIMIT_MS,
}, async () => {
  const { background } = (await opened.open({ role: 'api', migrations })).tenants.migrations
  await sql('insert into public.stuck default values')
  const doomed = await worker()
  const { id } = await background.start()
  await eventually(async () => expect((await sql(WAITING))[0].count).toBe(1), LIMIT_MS)
  await eventually(async () => expect((await background.get(id)).done).toBeGreaterThan(0), LIMIT_MS)
  await doomed.kill('SIGKILL')
  await sql('delete from public.stuck')
  const interrupted = await background.get(id)
  expect(interrupted).toMatchObject({ state: 'running', isBackground: true, total: IDS.length })
  expect(interrupted.running).toBeGreaterThan(0)

  await worker()
  // As after the time without a renewal of the killed worker.
  await sql(`update multitenancy.migration_items set lease_until = now() where state = 'running'`)
  await sql(`update multitenancy.migration_runs set worked_until = now() - interval '2 minutes'`)
  await background.recover()
  const ended = await background.settled(id, AbortSignal.timeout(LIMIT_MS))
  expect(ended).toMatchObject({ state: 'completed', done: IDS.length, failed: 0, skipped: 0 })
  expect(await sql('select schema from public.ran order by schema')).toEqual(IDS.map((id) => ({ schema: `t1_${id}` })))
  expect(await sql('select distinct schema_version from multitenancy.tenants')).toHaveLength(1)
})
