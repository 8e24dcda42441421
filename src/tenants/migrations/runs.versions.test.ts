/** Versions of tenants' schemas, as runs of migrations, rollbacks and installations record them. */
import { describe, expect, test } from 'vitest'
import { DAYS, install, NOTES, pendingOf, RELEASED, TAGS, useReleases } from './runs.fixture.ts'

const releases = useReleases()
const { sql, start, startShared, tablesOf, release } = releases

describe('the recorded version of a tenant', () => {
  test('is corrected by the next run, with one event, if a process died before it wrote the version', async () => {
    await startShared()
    const more = { name: '0004_more', checksum: '4', up: 'create table more ()', down: 'drop table more' }
    await release([NOTES, TAGS, DAYS, more], async (tenancy, published) => {
      const { tenants } = tenancy
      const before = await sql(`select schema_version from multitenancy.tenants where id = 't-7'`)
      await tenants.migrations.run({ ids: ['t-7'] })
      published.of('t-7')
      // The storage has committed, the backoffice has not.
      await sql(`update multitenancy.tenants set schema_version = $1 where id = 't-7'`, [before[0].schema_version])
      const { items } = await tenants.migrations.run({ ids: ['t-7'] })
      expect(items).toMatchObject([{ tenantId: 't-7', state: 'done', migrations: ['0004_more'] }])
      expect(published.of('t-7')).toEqual(['tenants.migrate', 'TenantMigrated'])
      expect((await tenants.migrations.run({ ids: ['t-7'] })).total).toBe(0)
      expect(await tenants.migrations.run({ ids: ['t-7'], verify: true })).toMatchObject({ done: 1 })
      expect(published.of('t-7')).toEqual([])
      await tenants.migrations.rollback({ ids: ['t-7'], steps: 1 })
    })
  })

  test('is unknown during a rollback, and unchanged after a rejected one', async () => {
    await startShared()
    const forward = { name: '0004_forward', checksum: '4', up: 'create table kept ()' }
    await release([NOTES, TAGS, DAYS, forward], async ({ tenants }, published) => {
      await tenants.migrations.run({ ids: ['t-8'] })
      const { items } = await tenants.migrations.rollback({ ids: ['t-8'], steps: 2 })
      expect(items).toMatchObject([{ state: 'failed', error: { code: 'E_MIGRATION_FAILED' } }])
      expect(await tablesOf('t-8')).toEqual(['kept', 'notes', 'tags'])
      expect(await tenants.migrations.status.plan({ ids: ['t-8'] })).toEqual([])
      published.of('t-8')
    })
    await sql('drop table "t1_t-8".kept')
    await sql(`delete from tenantry.migrations where name = '0004_forward'`)
    await sql(`update multitenancy.tenants set schema_version = '' where id = 't-8'`)
    await release([NOTES, TAGS, DAYS], async ({ tenants }, published) => {
      expect(await tenants.migrations.rollback({ ids: ['t-8'], steps: 2 })).toMatchObject({
        state: 'completed',
        done: 1,
      })
      expect(published.of('t-8')).toEqual(['tenants.rollback', 'TenantMigrated'])
      expect(published.events.at(-1)).toMatchObject({ migrations: ['0003_days', '0002_tags'], direction: 'down' })
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

  test('is counted by version, with pending, unknown and edited migrations', async () => {
    await start(RELEASED, 't-0', 't-1', 't-2')
    const { migrations } = releases.opened.tenancy.tenants
    await migrations.rollback({ ids: ['t-0'], steps: 1 })
    await migrations.run()
    await releases.opened.tenancy.stop() // processes with different texts of one migration do not run together
    const edited = { ...NOTES, checksum: 'edited' }
    const next = { name: '0004_next', checksum: '4', up: 'create table next ()' }
    await release([edited, TAGS, next], async ({ tenants }) => {
      const { versions, lastRun } = await tenants.migrations.status.summary()
      expect(versions).toEqual([
        {
          last: '0003_days',
          isKnown: true,
          tenants: 3,
          failed: 0,
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
      expect((await tenants.migrations.status.summary()).versions).toMatchObject([{ tenants: 3, failed: 1 }])
    })
    await release([NOTES, TAGS], async (older) => {
      expect(await pendingOf(older)).toEqual([]) // the tenants are ahead of this release
      expect(await older.tenants.migrations.run()).toMatchObject({ runId: null, total: 0 })
      await expect(older.tenants.migrations.status.ofTenant('unknown')).rejects.toMatchObject({
        code: 'E_TENANT_NOT_FOUND',
      })
    })
  })

  test('is written by an installation, including one during a run', async () => {
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
