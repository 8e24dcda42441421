/** Migration runs with failures, locks, interruptions and conflicting runs. */
import type { Kysely } from 'kysely'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { DAYS, NOTES, TAGS, useReleases } from './runs.fixture.ts'

const releases = useReleases()
const { sql, startShared, release } = releases

describe('a run', () => {
  test('ends after the maximum of failures', async () => {
    await startShared()
    const wrong = { name: '0004_wrong', checksum: 'w', up: 'select 1/0' }
    await release([NOTES, TAGS, DAYS, wrong], async ({ tenants }) => {
      const report = await tenants.migrations.run({ stopAfterFailures: 2, concurrency: 1 })
      expect(report).toMatchObject({ state: 'failed', total: 10, failed: 2, skipped: 8, isStopped: true })
    })
  })

  test('ends by default after 10 failures of 13 storages, and continues with a higher maximum', async () => {
    await releases.start([NOTES], ...Array.from({ length: 13 }, (_, n) => `many-${n}`))
    const wrong = { name: '0002_wrong', checksum: 'w', up: 'select 1/0', down: 'select 1' }
    await release([NOTES, wrong], async ({ tenants: { migrations } }) => {
      const byDefault = await migrations.run({ concurrency: 1 })
      expect(byDefault).toMatchObject({ state: 'failed', failed: 10, skipped: 3, isStopped: true })
      const toTheEnd = await migrations.run({ concurrency: 1, stopAfterFailures: 13 })
      expect(toTheEnd).toMatchObject({ state: 'failed', failed: 13, skipped: 0, isStopped: false })
    })
  })

  test('rolls back all storages despite failures, because a second rollback would revert more', async () => {
    await releases.start([NOTES], ...Array.from({ length: 12 }, (_, n) => `many-${n}`))
    await release([{ ...NOTES, down: 'select 1/0' }], async ({ tenants: { migrations } }) => {
      const report = await migrations.rollback({ steps: 1, concurrency: 1 })
      expect(report).toMatchObject({ state: 'failed', failed: 12, skipped: 0, isStopped: false })
    })
  })

  test('retries a storage with a locked table, and reports a table that stays locked', async () => {
    await startShared()
    const wide = {
      name: '0004_wide',
      checksum: '4',
      up: 'alter table notes add width int',
      down: 'alter table notes drop width',
    }
    await release([NOTES, TAGS, DAYS, wide], async ({ tenants }) => {
      let signal = (_: unknown) => {}
      const held = new Promise((resolve) => {
        signal = resolve
      })
      let free = (_: unknown) => {}
      const freed = new Promise((resolve) => {
        free = resolve
      })
      const holding = releases.opened.tenancy.transaction(async () => {
        await sql('lock table "t1_t-5".notes in share mode')
        signal(undefined)
        await freed
      })
      await held
      const ids = ['t-5', 't-6']
      const report = await tenants.migrations.run({ ids, lockTimeoutMs: 50, retries: 0 })
      expect(report).toMatchObject({ state: 'failed', done: 1, failed: 1 })
      expect(report.items[0]?.error).toEqual({
        code: 'E_MIGRATION_LOCKED',
        message: expect.stringContaining('for more than 50 ms'),
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

  test('releases unstarted items on an interruption; the same call continues it, and a cancellation ends it', async () => {
    await startShared()
    const slow = { name: '0004_slow', checksum: '4', up: 'create table slow ()', down: 'drop table slow' }
    const all = [NOTES, TAGS, DAYS, slow]
    /** Interrupted during the migration of the first tenant. */
    const interrupted = async (): Promise<string | null> => {
      const stop = new AbortController()
      const up = async (db: Kysely<any>) => {
        stop.abort()
        await db.schema.createTable('slow').execute()
      }
      const other = await releases.opened.open({ migrations: [NOTES, TAGS, DAYS, { ...slow, up }] })
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

  test('is rejected while another run is unfinished', async () => {
    await startShared()
    await release(
      [NOTES, TAGS, DAYS, { name: '0004_more', checksum: '4', up: 'create table more ()', down: 'drop table more' }],
      async ({ tenants }, published) => {
        const reports = await Promise.all([
          tenants.migrations.run(),
          tenants.migrations.run(),
          tenants.migrations.run(),
        ])
        const ids = new Set(reports.map(({ runId }) => runId).filter(Boolean))
        expect(ids.size).toBe(1)
        expect(reports.filter(({ runId }) => runId).every(({ done }) => done === 10)).toBe(true)
        expect(published.events.filter(({ name }) => name === 'TenantMigrated')).toHaveLength(10)
        await tenants.migrations.rollback({ steps: 1 })
      },
    )
  })
})
