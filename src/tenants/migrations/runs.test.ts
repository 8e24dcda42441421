/** Results of migration runs of several tenants in one process. */
import { describe, expect, test } from 'vitest'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { Progress } from './model/run.ts'
import { DAYS, NOTES, pendingOf, RELEASED, TAGS, useReleases } from './runs.fixture.ts'

const releases = useReleases()
const { sql, start, tablesOf, release } = releases

describe('a run', () => {
  test('without work is not stored', async () => {
    await start([NOTES], 't-0')
    const report = await releases.opened.tenancy.tenants.migrations.run()
    expect(report).toEqual({
      runId: null,
      isStopped: false,
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

  test('migrates the other tenants if one fails; after the fix, the next run migrates that tenant only', async () => {
    await start([NOTES], 't-1', 't-2', 't-3', 't-4', 't-5')
    const broken = {
      ...TAGS,
      up: `create table tags (); do $$ begin if current_schema() = 't1_t-4' then perform 1/0; end if; end $$`,
    }
    await release([NOTES, broken], async ({ tenants }, published) => {
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
      expect(published.of('t-3')).toEqual(['tenants.migrate', 'TenantMigrated'])
      expect(published.events.at(-1)).toMatchObject({ migrations: ['0002_tags'], direction: 'up' })
      expect(published.of('t-4')).toEqual([])
      expect(await tablesOf('t-4')).toEqual(['notes'])
      expect(await pendingOf(releases.opened.tenancy)).toEqual([])
    })
    const fixed = { ...TAGS, up: 'create table tags (name text)' }
    // The content has changed, but only t-4 has not run it: the name identifies it for the others.
    await release([NOTES, { ...fixed, checksum: broken.checksum }], async (tenancy) => {
      expect(await pendingOf(tenancy)).toEqual(['t-4'])
      const { items, state } = await tenancy.tenants.migrations.run()
      expect({ state, ids: items.map(({ tenantId }) => tenantId) }).toEqual({ state: 'completed', ids: ['t-4'] })
      expect(await tablesOf('t-4')).toEqual(['notes', 'tags'])
    })
  })

  test('migrates the given active and suspended tenants, and rejects others', async () => {
    await start([NOTES], 't-0', 't-1', 't-2')
    await release([NOTES, TAGS, DAYS], async ({ tenants }) => {
      await tenants.suspend('t-1')
      const { items } = await tenants.migrations.run({ ids: ['t-1', 't-0', 't-1'] })
      expect(items.map(({ tenantId, state }) => [tenantId, state])).toEqual([
        ['t-0', 'done'],
        ['t-1', 'done'],
      ])
      await tenants.activate('t-1')
      await expect(tenants.migrations.run({ ids: ['unknown'] })).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
      await tenants.create({ id: 'unborn', name: 'x' })
      await expect(tenants.migrations.run({ ids: ['unborn'] })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
      await expect(tenants.migrations.run({ concurrency: 0 })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
      await expect(
        releases.opened.tenancy.transaction(() => releases.opened.tenancy.tenants.migrations.run()),
      ).rejects.toThrow('outside')
    })
  })

  test('skips a tenant that is deleted before or during its migration', async () => {
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
})

test('a rejected change fails only for its tenant, and the next run records it', async () => {
  await start(RELEASED, 't-2', 't-3', 't-4')
  const noted = { name: '0004_noted', checksum: '4', up: 'create table noted ()', down: 'drop table noted' }
  await release([NOTES, TAGS, DAYS, noted], async (tenancy, published) => {
    const { tenants, kernel } = tenancy
    const end = kernel.events.subscribe(ChangeRecorded, 'within', ({ tenantId }) => {
      if (tenantId === 't-3') throw new Error('no entry for t-3')
    })
    const report = await tenants.migrations.run()
    expect(report).toMatchObject({ state: 'failed', failed: 1, done: 2 })
    expect(report.items.find(({ tenantId }) => tenantId === 't-3')?.error?.code).toBe('E_INTERNAL')
    end()
    expect(published.of('t-3')).toEqual([])
    expect(await tenants.migrations.run()).toMatchObject({ state: 'completed', total: 1, done: 1 })
    expect(published.of('t-3')).toEqual(['tenants.migrate', 'TenantMigrated'])
  })
})
