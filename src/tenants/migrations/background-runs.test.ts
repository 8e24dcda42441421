/** Migration runs that jobs carry out: start, join, continuation, cancellation, list. */
import type { Kysely } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { Recorded } from '../../../test/support/recorded.ts'
import { enterContext } from '../../kernel/base/context.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { DAYS, NOTES, TAGS, useReleases } from './runs.fixture.ts'

const releases = useReleases()
const { sql, startShared, release } = releases

const ADA = { type: 'admin', id: 'ada', name: 'Ada' } as const
const NEXT = { name: '0004_next', checksum: '4', up: 'create table next ()', down: 'drop table next' }
const ALL = [NOTES, TAGS, DAYS, NEXT]
const UNKNOWN = '00000000-0000-7000-8000-000000000000'
const options = () => ({ signal: new AbortController().signal })

const asAda = <T>(work: () => Promise<T>) => enterContext({ requestId: 'req-1', actor: ADA, ip: null }, work)
const jobsOf = (runId: string) =>
  sql(
    `select data from multitenancy_jobs.job where name = 'tenantry.WorkMigrationRun' and data ->> 'runId' = $1 and state = 'created'`,
    [runId],
  )
const changesOfRuns = ({ changes }: Recorded) =>
  changes.filter(({ tenantId }) => tenantId === null).map(({ action }) => action)
/** A release whose migration of each tenant calls `during` first. */
const observed = (during: (done: number) => void | Promise<void>): readonly TenantMigration[] => {
  let done = 0
  const up = async (db: Kysely<any>) => {
    await during(done++)
    await db.schema.createTable('next').execute()
  }
  return [NOTES, TAGS, DAYS, { ...NEXT, up }]
}

describe('a background run', () => {
  test('is carried out by a job in the name of its starter, and keeps its counts', async () => {
    await startShared()
    await release(ALL, async ({ tenants: { migrations } }, published) => {
      const { background } = migrations
      const started = await asAda(() => background.start({ stopAfterFailures: 3 }))
      expect(started).toMatchObject({
        direction: 'up',
        state: 'running',
        isBackground: true,
        startedBy: 'Ada',
        total: 10,
        pending: 10,
        stopAfterFailures: 3,
        finishedAt: null,
      })
      const { id } = started
      expect(await jobsOf(id)).toEqual([{ data: { runId: id } }])
      expect(changesOfRuns(published)).toEqual(['migrationRuns.start'])
      await background.work(id, options())
      const ended = await background.get(id)
      expect(ended).toMatchObject({ state: 'completed', total: 10, done: 10, pending: 0 })
      expect(await migrations.status.pendingTenants()).toBe(0)
      const migrated = published.events.filter(({ name }) => name === 'TenantMigrated')
      expect(migrated.map(({ requestId }) => requestId)).toEqual(Array(10).fill('req-1'))
      expect(await sql('select counts from multitenancy.migration_runs where id = $1', [id])).toEqual([
        { counts: { done: 10, failed: 0, skipped: 0 } },
      ])
      await background.work(id, options())
      expect(await background.get(id)).toEqual(ended)

      expect((await background.list({ limit: 1 })).data).toEqual([ended])
      const first = await background.items(id, { limit: 6 })
      const rest = await background.items(id, { limit: 6, cursor: first.nextCursor ?? '' })
      const items = [...first.data, ...rest.data]
      expect(items.map(({ tenantId }) => tenantId)).toEqual(Array.from({ length: 10 }, (_, n) => `t-${n}`))
      expect(items[0]).toMatchObject({ state: 'done', migrations: ['0004_next'], attempts: 1, error: null })
      expect((await background.items(id, { state: 'failed' })).data).toEqual([])
      await migrations.rollback({ steps: 1 })
      expect((await background.list({ limit: 1 })).data).toMatchObject([{ direction: 'down', steps: 1, done: 10 }])
    })
  })

  test('of the same request is joined, also one of a process, and another request is rejected', async () => {
    await startShared()
    await release(ALL, async ({ tenants: { migrations } }, published) => {
      const { background } = migrations
      const unfinished = await migrations.run({ signal: AbortSignal.abort() })
      const id = unfinished.runId ?? ''
      expect(await background.get(id)).toMatchObject({ state: 'running', isBackground: false })
      expect(await jobsOf(id)).toEqual([])
      expect(await asAda(() => background.start())).toMatchObject({ id, isBackground: true, startedBy: 'Ada' })
      expect(await background.start()).toMatchObject({ id, startedBy: 'Ada' })
      expect(await jobsOf(id)).toHaveLength(1)
      expect(changesOfRuns(published)).toEqual(['migrationRuns.start'])
      await sql(`update multitenancy.migration_runs set worked_until = now() + interval '1 minute' where id = $1`, [id])
      await expect(background.start({ tenantIds: ['t-1'] })).rejects.toMatchObject({ code: 'E_MIGRATION_RUNNING' })
      await background.work(id, options())
      expect(await background.get(id)).toMatchObject({ state: 'completed', done: 10 })

      const nothing = await background.start({ tenantIds: ['t-1', 't-1'] })
      expect(nothing).toMatchObject({ state: 'completed', total: 0 })
      expect(nothing.id).not.toBe(id)
      expect(await jobsOf(nothing.id)).toEqual([])
      const verified = await background.start({ tenantIds: ['t-1'], verify: true })
      expect(verified).toMatchObject({ isVerified: true, total: 1 })
      await background.work(verified.id, options())
      expect(await background.get(verified.id)).toMatchObject({ state: 'completed', done: 1 })
      await migrations.rollback({ steps: 1 })
    })
  })

  test('ends after a cancellation with the storages in progress, and skips the others', async () => {
    await startShared()
    const cancelling = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const migrations = observed(() => {
      started.resolve()
      return cancelling.promise
    })
    await release(migrations, async ({ tenants: { migrations } }, published) => {
      const { background } = migrations
      const { id } = await background.start()
      const working = background.work(id, options())
      await started.promise
      const cancelled = await background.cancel(id)
      expect(cancelled).toMatchObject({ state: 'running', isCancelled: true })
      expect(await background.cancel(id)).toEqual(cancelled)
      expect(changesOfRuns(published)).toEqual(['migrationRuns.start', 'migrationRuns.cancel'])
      cancelling.resolve()
      await working
      const ended = await background.get(id)
      expect(ended.state).toBe('cancelled')
      expect(ended.done + ended.skipped).toBe(10)
      expect(await background.cancel(id)).toMatchObject({ state: 'cancelled' })
      const { data } = await background.items(id, { state: 'done' })
      await migrations.rollback({ steps: 1, ids: data.flatMap(({ tenantId }) => tenantId ?? []) })

      const waiting = await background.start()
      expect(await background.cancel(waiting.id)).toMatchObject({ state: 'cancelled', skipped: 10 })
    })
  })

  test('continues after an interruption, in a worker with the same migrations', async () => {
    await startShared()
    const stop = new AbortController()
    let runId = ''
    await release(
      observed(() => stop.abort()),
      async ({ tenants: { migrations } }) => {
        const { background } = migrations
        runId = (await background.start()).id
        await expect(background.work(runId, { signal: stop.signal })).rejects.toThrow('aborted')
        const interrupted = await background.get(runId)
        expect(interrupted).toMatchObject({ state: 'running', running: 0 })
        expect(interrupted.pending).toBeGreaterThan(0)
      },
    )
    const shared = releases.opened.tenancy.tenants.migrations.background
    await shared.work(runId, options())
    const { pending } = await shared.get(runId)
    expect(pending).toBeGreaterThan(0) // its migrations differ from those of the run

    await sql(`delete from multitenancy_jobs.job where name = 'tenantry.WorkMigrationRun'`)
    await shared.recover()
    expect(await jobsOf(runId)).toEqual([])
    await sql(`update multitenancy.migration_runs set worked_until = now() - interval '2 minutes' where id = $1`, [
      runId,
    ])
    await shared.recover()
    await shared.recover()
    expect(await jobsOf(runId)).toHaveLength(1)
    await release(ALL, async ({ tenants: { migrations } }) => {
      await migrations.background.work(runId, options())
      expect(await migrations.background.get(runId)).toMatchObject({ state: 'completed', done: 10 })
      await migrations.rollback({ steps: 1 })
    })
  })

  test('is worked on by a worker, and a request can wait for its end', async () => {
    await startShared()
    await release(ALL, async ({ tenants: { migrations } }) => {
      const worker = await releases.opened.open({ migrations: ALL, role: 'worker' })
      const { id } = await migrations.background.start()
      const ended = await migrations.background.settled(id, AbortSignal.timeout(60_000))
      expect(ended).toMatchObject({ state: 'completed', done: 10 })
      await worker.stop()
      await migrations.rollback({ steps: 1 })
    })
  })
})

test('an unknown run is not found', async () => {
  await startShared()
  const { background } = releases.opened.tenancy.tenants.migrations
  for (const id of [UNKNOWN, 'newest']) {
    for (const work of [() => background.get(id), () => background.items(id), () => background.cancel(id)])
      await expect(work()).rejects.toMatchObject({ code: 'E_MIGRATION_RUN_NOT_FOUND', status: 404 })
    await background.work(id, options())
  }
})
