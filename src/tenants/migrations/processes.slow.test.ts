/** Runs of several processes, some of which are killed. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

const PROGRAM = new URL('./process.fixture.ts', import.meta.url)
const TENANTS = 60
/** The server ends the work of a closed connection within five seconds. */
const KILLED_WITHIN_MS = 30_000
const LEASE_MS = 1_500

const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (body text)', down: 'drop table notes' }
const ids = Array.from({ length: TENANTS }, (_, index) => `m-${String(index).padStart(2, '0')}`)

let opened: TestTenancy<[]>
const children: Child[] = []

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
  const { tenants } = opened.tenancy
  await sql('create table public.ran (what text, schema text)')
  await sql('create table public.stuck ()')
  for (const id of ids) {
    await tenants.create({ id, name: id })
    await tenants.installation.install(id, { isLast: true })
  }
})
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill('SIGKILL')))
})
afterAll(() => opened.end())

const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const noted = (name: string, also = '') => ({
  name,
  checksum: name,
  up: `create table "${name}" (); insert into public.ran select '${name}', current_schema(); ${also}`,
  down: `drop table "${name}"; insert into public.ran select 'down ${name}', current_schema(); ${also}`,
})
const child = async (...migrations: object[]): Promise<Child> => {
  const started = await startChild(PROGRAM, { url: opened.url, migrations: [NOTES, ...migrations] })
  children.push(started)
  return started
}
/** Schemas in which a migration was run and committed, once for each run. */
const ranIn = async (what: string): Promise<string[]> =>
  (await sql('select schema from public.ran where what = $1 order by schema', [what])).map(({ schema }) => schema)
const allSchemas = ids.map((id) => `t1_${id}`)
const sleeping = `select count(*) as count from pg_stat_activity
  where datname = current_database() and wait_event = 'PgSleep'`
/** The migration of one tenant waits while the table has a row. */
const stuckAt = (id: string) =>
  `do $$ begin if current_schema() = 't1_${id}' and exists (select from public.stuck) then perform pg_sleep(3600); end if; end $$`

// Each test continues with the migrations of the test before.
describe('a run of several processes', { shuffle: false }, () => {
  test('migrates each tenant once, in one of two processes', async () => {
    const migration = noted('0002_shared')
    const [one, other] = [await child(migration), await child(migration)]
    const [first, second] = await Promise.all([one.request({ concurrency: 2 }), other.request({ concurrency: 2 })])
    expect(first.report.runId).toBe(second.report.runId)
    for (const { report } of [first, second])
      expect(report).toMatchObject({ state: 'completed', total: TENANTS, done: TENANTS })
    expect(await ranIn('0002_shared')).toEqual(allSchemas)
    expect([...first.migrated, ...second.migrated].sort()).toEqual(ids)
    expect(first.migrated.length).toBeGreaterThan(0)
    expect(second.migrated.length).toBeGreaterThan(0)
  })

  test(
    'completes in another process after a process was killed with -9',
    async () => {
      const migrations = [noted('0002_shared'), noted('0003_killed', stuckAt('m-07'))]
      await sql('insert into public.stuck default values')
      const doomed = await child(...migrations)
      const lost = doomed.request({ concurrency: 1, leaseMs: LEASE_MS }).catch((error) => error.message)
      await eventually(async () => expect((await sql(sleeping))[0].count).toBe(1))
      const survivor = await child(...migrations)
      const joined = survivor.request({ concurrency: 2, leaseMs: LEASE_MS })
      await sql('delete from public.stuck')
      await doomed.kill('SIGKILL')
      expect(await lost).toBe('the child process has exited')
      const { report, migrated } = await joined
      expect(report).toMatchObject({ state: 'completed', total: TENANTS, done: TENANTS })
      expect(await ranIn('0003_killed')).toEqual(allSchemas)
      expect(new Set(migrated).size).toBe(migrated.length)
      const later = await child(...migrations)
      expect((await later.request({})).report).toMatchObject({ runId: null, total: 0 })
    },
    KILLED_WITHIN_MS * 2,
  )

  test(
    'rolls back exactly the requested migrations after its process was killed',
    async () => {
      const migrations = [noted('0002_shared'), noted('0003_killed', stuckAt('m-11'))]
      await sql('insert into public.stuck default values')
      const rollback = { direction: 'down', steps: 1, leaseMs: LEASE_MS, concurrency: 2 }
      const doomed = await child(...migrations)
      const lost = doomed.request(rollback).catch((error) => error.message)
      await eventually(async () => expect((await sql(sleeping))[0].count).toBe(1))
      expect(await sql(`select schema_version from multitenancy.tenants where id = 'm-11'`)).toEqual([
        { schema_version: '' },
      ])
      await doomed.kill('SIGKILL')
      expect(await lost).toBe('the child process has exited')
      await sql('delete from public.stuck')
      const [one, other] = [await child(...migrations), await child(...migrations)]
      const results = await Promise.all([one.request(rollback), other.request(rollback)])
      for (const { report } of results)
        expect(report).toMatchObject({ state: 'completed', total: TENANTS, done: TENANTS })
      expect(await ranIn('down 0003_killed')).toEqual(allSchemas)
      expect(await ranIn('down 0002_shared')).toEqual([])
      const { versions } = await (
        await opened.open({ migrations: [NOTES, ...migrations] })
      ).tenants.migrations.status.summary()
      expect(versions).toMatchObject([{ tenants: TENANTS, last: '0002_shared', pending: ['0003_killed'] }])
    },
    KILLED_WITHIN_MS * 2,
  )
})
