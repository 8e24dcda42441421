/** Runs of migrations over several tenants, one process at a time; what several processes do is in migration-processes.slow.test.ts. */
import type { Kysely } from 'kysely'
import { afterAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { ChangeRecorded } from '../kernel/changes.ts'
import type { Tenancy } from '../tenancy.ts'
import { type Recorded, recorded } from '../testing/recorded.ts'
import { eventually, type TestTenancy, testTenancy } from '../testing/tenancy.ts'
import type { Progress } from './migration-run.ts'
import type { TenantMigration } from './migrations.ts'

const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: 'create table notes (body text)',
  down: 'drop table notes',
}
const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: 'create table tags (name text)',
  down: 'drop table tags',
}
const DAYS: TenantMigration = {
  name: '0003_days',
  checksum: '3',
  up: 'alter table notes add day date',
  down: 'alter table notes drop day',
}
const RELEASED = [NOTES, TAGS, DAYS]
const IDS = ['t-0', 't-1', 't-2', 't-3', 't-4', 't-5', 't-6', 't-7', 't-8', 't-9']

let opened: TestTenancy<[]>

/** Of tests that leave each tenant with the released migrations. */
let shared: TestTenancy<[]> | undefined
afterAll(() => shared?.end())

/** Tenants that have these migrations. */
async function make(migrations: readonly TenantMigration[], ids: readonly string[]): Promise<TestTenancy<[]>> {
  const made = await testTenancy(inject('postgresUrl'), { role: 'api', migrations })
  await Promise.all(ids.map((id) => install(made.tenancy, id)))
  return made
}
async function start(migrations: readonly TenantMigration[], ...ids: string[]): Promise<void> {
  opened = await make(migrations, ids)
  onTestFinished(opened.end)
}
async function startShared(): Promise<void> {
  shared ??= await make(RELEASED, IDS)
  opened = shared
}

async function install({ tenants }: Tenancy, id: string): Promise<void> {
  await tenants.create({ id, name: id })
  await tenants.installation.install(id, { isLast: true })
}
const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const tablesOf = async (id: string): Promise<string[]> =>
  (await sql('select tablename as name from pg_tables where schemaname = $1 order by 1', [`t1_${id}`])).map(
    ({ name }) => name,
  )
/** As another release of the host has them. */
async function release(
  migrations: readonly TenantMigration[],
  work: (release: Tenancy, said: Recorded) => Promise<void>,
): Promise<void> {
  const tenancy = await opened.open({ migrations })
  try {
    await work(tenancy, recorded(tenancy))
  } finally {
    await tenancy.stop()
  }
}
const pendingOf = async ({ tenants }: Tenancy) =>
  (await tenants.migrations.status.plan()).map(({ tenantId }) => tenantId)

describe('a run', () => {
  test('with nothing to do is none', async () => {
    await start([NOTES], 't-0')
    const report = await opened.tenancy.tenants.migrations.run()
    expect(report).toEqual({
      runId: null,
      direction: 'up',
      state: 'completed',
      total: 0,
      pending: 0,
      running: 0,
      done: 0,
      failed: 0,
      skipped: 0,
      items: [],
    })
    expect(await sql('select * from multitenancy.migration_runs')).toEqual([])
  })

  test('that fails for one tenant is done for the others; mended, the next does only that one', async () => {
    await start([NOTES], 't-1', 't-2', 't-3', 't-4', 't-5')
    const broken = {
      ...TAGS,
      up: `create table tags (); do $$ begin if current_schema() = 't1_t-4' then perform 1/0; end if; end $$`,
    }
    await release([NOTES, broken], async ({ tenants }, said) => {
      const progress: Progress[] = []
      const report = await tenants.migrations.run({ concurrency: 3, onProgress: (now) => void progress.push(now) })
      expect(report).toMatchObject({
        state: 'failed',
        total: 5,
        done: 4,
        failed: 1,
        pending: 0,
        running: 0,
        skipped: 0,
      })
      expect(report.items.find(({ state }) => state === 'failed')).toMatchObject({
        tenantId: 't-4',
        attempts: 1,
        migrations: [],
        error: {
          code: 'E_MIGRATION_FAILED',
          message: expect.stringContaining('0002_tags (up) failed (SQLSTATE 22012)'),
        },
      })
      expect(
        report.items.filter(({ state }) => state === 'done').every(({ migrations }) => migrations[0] === '0002_tags'),
      ).toBe(true)
      expect(progress.at(-1)).toMatchObject({ total: 5, done: 4, failed: 1, remainingSeconds: 0 })
      expect(said.of('t-3')).toEqual(['tenants.migrate', 'TenantMigrated'])
      expect(said.events.at(-1)).toMatchObject({ migrations: ['0002_tags'], direction: 'up' })
      expect(said.of('t-4')).toEqual([])
      expect(await tablesOf('t-4')).toEqual(['notes'])
      expect(await pendingOf(opened.tenancy)).toEqual([])
    })
    const mended = { ...TAGS, up: 'create table tags (name text)' }
    // Its content is another one, but only t-4 has not run it: the others are told apart by their name.
    await release([NOTES, { ...mended, checksum: broken.checksum }], async (tenancy) => {
      expect(await pendingOf(tenancy)).toEqual(['t-4'])
      const { items, state } = await tenancy.tenants.migrations.run()
      expect({ state, ids: items.map(({ tenantId }) => tenantId) }).toEqual({ state: 'completed', ids: ['t-4'] })
      expect(await tablesOf('t-4')).toEqual(['notes', 'tags'])
    })
  })

  test('is for the tenants that are named, active or suspended, and refuses others', async () => {
    await start([NOTES], 't-0', 't-1', 't-2')
    await release([NOTES, TAGS, DAYS], async ({ tenants }) => {
      await tenants.suspend('t-1')
      const { items } = await tenants.migrations.run({ ids: ['t-1', 't-0', 't-1'] })
      expect(items.map(({ tenantId, state }) => [tenantId, state])).toEqual([
        ['t-0', 'done'],
        ['t-1', 'done'],
      ])
      await tenants.activate('t-1')
      await expect(tenants.migrations.run({ ids: ['nobody'] })).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
      await tenants.create({ id: 'unborn', name: 'x' })
      await expect(tenants.migrations.run({ ids: ['unborn'] })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
      await expect(tenants.migrations.run({ concurrency: 0 })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
      await expect(opened.tenancy.transaction(() => opened.tenancy.tenants.migrations.run())).rejects.toThrow('outside')
    })
  })

  test('leaves out who is deleted before its turn, whatever came of it', async () => {
    await start([NOTES], 't-2', 't-3')
    await release([NOTES, TAGS, DAYS], async (tenancy) => {
      const { tenants } = tenancy
      const unlucky = {
        ...DAYS,
        up: (db: any) => tenants.delete('t-2').then(() => db.schema.createTable('notes').execute()),
      }
      await release([NOTES, TAGS, unlucky], async (other) => {
        const report = await other.tenants.migrations.run({ ids: ['t-2', 't-3'], concurrency: 1 })
        expect(report.items.map(({ tenantId, state }) => [tenantId, state])).toEqual([
          ['t-2', 'skipped'],
          ['t-3', 'failed'],
        ])
      })
      await tenants.restore('t-2')
      await tenants.migrations.run()
    })
  })

  test('ends after so many failures', async () => {
    await startShared()
    const wrong = { name: '0004_wrong', checksum: 'w', up: 'select 1/0' }
    await release([NOTES, TAGS, DAYS, wrong], async ({ tenants }) => {
      const report = await tenants.migrations.run({ stopAfterFailures: 2, concurrency: 1 })
      expect(report).toMatchObject({ state: 'failed', total: 10, failed: 2, skipped: 8 })
    })
  })

  test('tries again where a table is locked, and says so when it stays locked', async () => {
    await startShared()
    const wide = {
      name: '0004_wide',
      checksum: '4',
      up: 'alter table notes add width int',
      down: 'alter table notes drop width',
    }
    await release([NOTES, TAGS, DAYS, wide], async ({ tenants }) => {
      let tell = (_: unknown) => {}
      const held = new Promise((resolve) => {
        tell = resolve
      })
      let free = (_: unknown) => {}
      const freed = new Promise((resolve) => {
        free = resolve
      })
      const holding = opened.tenancy.transaction(async () => {
        await sql('lock table "t1_t-5".notes in share mode')
        tell(undefined)
        await freed
      })
      await held
      const ids = ['t-5', 't-6']
      const report = await tenants.migrations.run({ ids, lockTimeoutMs: 50, retries: 0 })
      expect(report).toMatchObject({ state: 'failed', done: 1, failed: 1 })
      expect(report.items[0]?.error).toEqual({
        code: 'E_MIGRATION_LOCKED',
        message: expect.stringContaining('for 50 ms'),
      })
      const counted = async () =>
        (
          await sql(
            `select attempts from multitenancy.migration_items where tenant_id = 't-5' and state = 'pending' and attempts > 0`,
          )
        ).length
      const again = tenants.migrations.run({ ids, lockTimeoutMs: 50, retries: 5 })
      await eventually(async () => expect(await counted()).toBe(1))
      free(undefined)
      await holding
      const { items, state } = await again
      expect(state).toBe('completed')
      expect(items).toMatchObject([{ tenantId: 't-5', state: 'done', migrations: ['0004_wide'], error: null }])
      expect(items[0]?.attempts).toBeGreaterThan(1)
      await tenants.migrations.rollback({ ids, steps: 1 })
    })
  })

  test('that is interrupted gives back what it has not begun; the same again goes on with it, or it is cancelled', async () => {
    await startShared()
    const slow = { name: '0004_slow', checksum: '4', up: 'create table slow ()', down: 'drop table slow' }
    const all = [NOTES, TAGS, DAYS, slow]
    /** Interrupted while it migrates the first tenant. */
    const interrupted = async (): Promise<string | null> => {
      const stop = new AbortController()
      const up = async (db: Kysely<any>) => {
        stop.abort()
        await db.schema.createTable('slow').execute()
      }
      const other = await opened.open({ migrations: [NOTES, TAGS, DAYS, { ...slow, up }] })
      const report = await other.tenants.migrations.run({ concurrency: 1, signal: stop.signal })
      expect(report).toMatchObject({ state: 'running', done: 1, running: 0, pending: 9 })
      await other.stop()
      return report.runId
    }
    await release(all, async ({ tenants }) => {
      const runId = await interrupted()
      expect((await tenants.migrations.status.summary()).lastRun).toMatchObject({ state: 'running', pending: 9 })
      expect(await tenants.migrations.run()).toMatchObject({ runId, state: 'completed', total: 10, done: 10 })
      await tenants.migrations.rollback({ steps: 1 })

      const stopped = AbortSignal.abort()
      const unfinished = await tenants.migrations.rollback({ ids: ['t-0'], steps: 1, signal: stopped })
      expect(unfinished).toMatchObject({ state: 'running', total: 1, pending: 1 })
      await expect(tenants.migrations.run()).rejects.toMatchObject({ code: 'E_MIGRATION_RUNNING', status: 409 })
      expect(await tenants.migrations.cancel()).toMatchObject({ state: 'cancelled', skipped: 1 })
      expect(await tenants.migrations.cancel()).toBeUndefined()

      await interrupted()
      expect(await tenants.migrations.run({ ids: ['t-1'] })).toMatchObject({ state: 'completed', total: 1 })
      expect(await tenants.migrations.run()).toMatchObject({ state: 'completed', total: 8 })
      await tenants.migrations.rollback({ steps: 1 })
    })
  })

  test('is one at a time', async () => {
    await startShared()
    await release(
      [NOTES, TAGS, DAYS, { name: '0004_more', checksum: '4', up: 'create table more ()', down: 'drop table more' }],
      async ({ tenants }, said) => {
        const reports = await Promise.all([
          tenants.migrations.run(),
          tenants.migrations.run(),
          tenants.migrations.run(),
        ])
        const ids = new Set(reports.map(({ runId }) => runId).filter(Boolean))
        expect(ids.size).toBe(1)
        expect(reports.filter(({ runId }) => runId).every(({ done }) => done === 10)).toBe(true)
        expect(said.events.filter(({ name }) => name === 'TenantMigrated')).toHaveLength(10)
        await tenants.migrations.rollback({ steps: 1 })
      },
    )
  })
})

describe('what is known of a tenant', () => {
  test('is mended by the next run when a process died before it could write it down, and it is told of once', async () => {
    await startShared()
    const more = { name: '0004_more', checksum: '4', up: 'create table more ()', down: 'drop table more' }
    await release([NOTES, TAGS, DAYS, more], async (tenancy, said) => {
      const { tenants } = tenancy
      const before = await sql(`select schema_version from multitenancy.tenants where id = 't-7'`)
      await tenants.migrations.run({ ids: ['t-7'] })
      said.of('t-7')
      // As it is when the storage has committed and the backoffice has not.
      await sql(`update multitenancy.tenants set schema_version = $1 where id = 't-7'`, [before[0].schema_version])
      const { items } = await tenants.migrations.run({ ids: ['t-7'] })
      expect(items).toMatchObject([{ tenantId: 't-7', state: 'done', migrations: ['0004_more'] }])
      expect(said.of('t-7')).toEqual(['tenants.migrate', 'TenantMigrated'])
      expect((await tenants.migrations.run({ ids: ['t-7'] })).total).toBe(0)
      expect(await tenants.migrations.run({ ids: ['t-7'], verify: true })).toMatchObject({ done: 1 })
      expect(said.of('t-7')).toEqual([])
      await tenants.migrations.rollback({ ids: ['t-7'], steps: 1 })
    })
  })

  test('is not known while it is rolled back, and what failed is as it was', async () => {
    await startShared()
    const forward = { name: '0004_forward', checksum: '4', up: 'create table kept ()' }
    await release([NOTES, TAGS, DAYS, forward], async ({ tenants }, said) => {
      await tenants.migrations.run({ ids: ['t-8'] })
      const { items } = await tenants.migrations.rollback({ ids: ['t-8'], steps: 2 })
      expect(items).toMatchObject([{ state: 'failed', error: { code: 'E_MIGRATION_FAILED' } }])
      expect(await tablesOf('t-8')).toEqual(['kept', 'notes', 'tags'])
      expect(await tenants.migrations.status.plan({ ids: ['t-8'] })).toEqual([])
      said.of('t-8')
    })
    await sql('drop table "t1_t-8".kept')
    await sql(`delete from tenantry.migrations where name = '0004_forward'`)
    await sql(`update multitenancy.tenants set schema_version = '' where id = 't-8'`)
    await release([NOTES, TAGS, DAYS], async ({ tenants }, said) => {
      expect(await tenants.migrations.rollback({ ids: ['t-8'], steps: 2 })).toMatchObject({
        state: 'completed',
        done: 1,
      })
      expect(said.of('t-8')).toEqual(['tenants.rollback', 'TenantMigrated'])
      expect(said.events.at(-1)).toMatchObject({ migrations: ['0003_days', '0002_tags'], direction: 'down' })
      expect(await tablesOf('t-8')).toEqual(['notes'])
      expect(await tenants.migrations.status.plan()).toEqual([
        { tenantId: 't-8', migrations: ['0002_tags', '0003_days'], error: null },
      ])
      expect(await tenants.migrations.status.plan({ ids: ['t-8'], steps: 5 })).toMatchObject([
        { migrations: ['0001_notes'] },
      ])
      await tenants.migrations.run()
      expect(await tablesOf('t-8')).toEqual(['notes', 'tags'])
    })
  })

  test('is counted by version, with what is pending, unknown and edited', async () => {
    await start(RELEASED, 't-0', 't-1', 't-2')
    const { migrations } = opened.tenancy.tenants
    await migrations.rollback({ ids: ['t-0'], steps: 1 })
    await migrations.run()
    const edited = { ...NOTES, checksum: 'edited' }
    const next = { name: '0004_next', checksum: '4', up: 'create table next ()' }
    await release([edited, TAGS, next], async ({ tenants }) => {
      const { versions, lastRun } = await tenants.migrations.status.summary()
      expect(versions).toEqual([
        {
          last: '0003_days',
          isKnown: true,
          tenants: 3,
          pending: ['0004_next'],
          unknown: ['0003_days'],
          edited: ['0001_notes'],
        },
      ])
      expect(lastRun).toMatchObject({ state: 'completed', direction: 'up', done: 1 })
      expect(await tenants.migrations.status.ofTenant('t-0')).toEqual([
        { migration: '0001_notes', state: 'edited' },
        { migration: '0002_tags', state: 'applied' },
        { migration: '0004_next', state: 'pending' },
        { migration: '0003_days', state: 'unknown' },
      ])
      expect((await tenants.migrations.status.plan({ ids: ['t-0'] }))[0]?.error?.message).toContain('0001_notes')
      const { items } = await tenants.migrations.run({ ids: ['t-0'] })
      expect(items).toMatchObject([
        { state: 'failed', error: { message: expect.stringContaining('0001_notes was changed') } },
      ])
    })
    await release([NOTES, TAGS], async (older) => {
      expect(await pendingOf(older)).toEqual([]) // they are ahead of it
      expect(await older.tenants.migrations.run()).toMatchObject({ runId: null, total: 0 })
      await expect(older.tenants.migrations.status.ofTenant('nobody')).rejects.toMatchObject({
        code: 'E_TENANT_NOT_FOUND',
      })
    })
  })

  test('is written by an installation, also in the middle of a run', async () => {
    await start(RELEASED, 't-0', 't-1', 't-2')
    const count = { name: '0004_count', checksum: '4', up: 'create table count ()', down: 'drop table count' }
    await release([NOTES, TAGS, DAYS, count], async (tenancy) => {
      const running = tenancy.tenants.migrations.run({ concurrency: 1 })
      await Promise.all(['new-1', 'new-2'].map((id) => install(tenancy, id)))
      expect(await running).toMatchObject({ state: 'completed', failed: 0 })
      expect(await pendingOf(tenancy)).toEqual([])
      expect(await tablesOf('new-1')).toEqual(['count', 'notes', 'tags'])
      await tenancy.tenants.migrations.rollback({ steps: 1 })
      expect((await tenancy.tenants.migrations.status.summary()).versions).toMatchObject([
        { last: '0003_days', tenants: 5 },
      ])
    })
  })
})

test('a change that cannot be recorded fails for its tenant alone, and is made up for', async () => {
  await start(RELEASED, 't-2', 't-3', 't-4')
  const noted = { name: '0004_noted', checksum: '4', up: 'create table noted ()', down: 'drop table noted' }
  await release([NOTES, TAGS, DAYS, noted], async (tenancy, said) => {
    const { tenants, kernel } = tenancy
    const end = kernel.events.subscribe(ChangeRecorded, 'within', ({ tenantId }) => {
      if (tenantId === 't-3') throw new Error('no entry for t-3')
    })
    const report = await tenants.migrations.run()
    expect(report).toMatchObject({ state: 'failed', failed: 1, done: 2 })
    expect(report.items.find(({ tenantId }) => tenantId === 't-3')?.error?.code).toBe('E_INTERNAL')
    end()
    expect(said.of('t-3')).toEqual([])
    expect(await tenants.migrations.run()).toMatchObject({ state: 'completed', total: 1, done: 1 })
    expect(said.of('t-3')).toEqual(['tenants.migrate', 'TenantMigrated'])
  })
})
