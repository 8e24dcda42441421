/** Tests cancellation, removal, counts and upkeep of queues and schedules. */
import { PgBoss } from 'pg-boss'
import { afterEach, describe, expect, inject, type MockInstance, test, vi } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { NOTED_AGAIN_MS, noteNames } from '../../kernel/jobs/queue-registry.ts'
import { kernelPart } from '../../kernel/parts.ts'
import { createTestDatabase, WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { PgBossJobs } from './pg-boss.ts'
import { type, useRunners } from './runners.fixture.ts'
import { BOTH, Common, EVERYTHING, Special, sideBySide } from './upkeep.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners

const { scheduled, lettersIn, all, kept } = sideBySide(runners)

describe('cancel', () => {
  test('removes only the waiting and retried jobs of a type and key', async () => {
    const Taken = type('Taken', { retryDelaySeconds: 60 })
    const Other = type('Other')
    const attempts: number[] = []
    const worker = await start([Taken, Other], {
      Taken: async ({ n }) => {
        attempts.push(n)
        throw new Error('again')
      },
    })
    await worker.send(Taken, { n: 1 }, { key: 'a' })
    await eventually(async () => expect(await countsOf(Taken)).toMatchObject([{ delayed: 1 }]))
    await worker.send(Taken, { n: 2 }, { key: 'a', afterSeconds: 60 })
    await worker.send(Taken, { n: 3 }, { key: 'b', afterSeconds: 60 })
    await worker.send(Other, { n: 4 }, { key: 'a' })
    expect(await worker.isPending(Taken, 'a')).toBe(true)
    await worker.cancel(Taken, 'a')
    expect(await worker.isPending(Taken, 'a')).toBe(false)
    expect(await worker.isPending(Taken, 'b')).toBe(true)
    expect(await worker.isPending(Other, 'a')).toBe(true)
    expect(await countsOf(Taken)).toMatchObject([{ delayed: 1, failed: 0 }])
    expect(attempts).toEqual([1])
  })

  test('does not stop a running job', async () => {
    const Running = type('Running')
    const gate = Promise.withResolvers<void>()
    const worker = await start([Running], { Running: () => gate.promise })
    await worker.send(Running, { n: 1 }, { key: 'a' })
    await eventually(async () => expect(await countsOf(Running)).toMatchObject([{ active: 1 }]))
    await worker.cancel(Running, 'a')
    expect(await worker.isPending(Running, 'a')).toBe(true)
    gate.resolve()
    await eventually(async () => expect(await countsOf(Running)).toMatchObject([{ completed: 1 }]))
    expect(await worker.isPending(Running, 'a')).toBe(false)
  })

  test('in a transaction that fails removes nothing', async () => {
    const Kept = type('Kept')
    const sender = await start([Kept])
    await sender.send(Kept, { n: 1 }, { key: 'a' })
    const failing = runners.database.transaction(async () => {
      await sender.cancel(Kept, 'a')
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await sender.isPending(Kept, 'a')).toBe(true)
  })
})

test('forget removes the jobs of one tenant except those in progress', async () => {
  const Ended = type('Ended', { retries: 0 })
  const Gated = type('Gated')
  const gate = Promise.withResolvers<void>()
  const worker = await start([Ended, Gated], {
    Ended: async ({ n }) => {
      if (n === 2) throw new Error('no')
    },
    Gated: () => gate.promise,
  })
  for (const tenantId of ['acme', 'other']) {
    await worker.send(Ended, { n: 1 }, { tenantId })
    await worker.send(Ended, { n: 2 }, { tenantId })
    await worker.send(Ended, { n: 3 }, { tenantId, afterSeconds: 60 })
    await worker.send(Gated, { n: 4 }, { tenantId })
  }
  await eventually(async () => {
    expect(await countsOf(Ended)).toMatchObject([
      { tenantId: 'acme', completed: 1, failed: 1, delayed: 1 },
      { tenantId: 'other', completed: 1, failed: 1, delayed: 1 },
    ])
    expect(await countsOf(Gated)).toMatchObject([{ active: 1 }, { active: 1 }])
    expect(await lettersIn('tenantry.dead-letter')).toHaveLength(2)
  })
  await worker.forget('acme')
  expect(await worker.counts('acme')).toEqual([
    { queue: 'tenantry.Gated', tenantId: 'acme', waiting: 0, active: 1, completed: 0, failed: 0, delayed: 0 },
  ])
  expect(await worker.counts('other')).toHaveLength(3)
  expect(await lettersIn('tenantry.dead-letter')).toMatchObject([{ group_id: 'other' }])
  gate.resolve()
})

describe('counts', () => {
  test('count jobs of each state by tenant and queue, including jobs without a tenant', async () => {
    const Counted = type('Counted')
    const sender = await start([Counted])
    await sender.send(Counted, { n: 1 })
    await sender.send(Counted, { n: 2 }, { tenantId: 'acme' })
    await sender.send(Counted, { n: 3 }, { tenantId: 'acme' })
    await sender.send(Counted, { n: 4 }, { tenantId: 'acme', afterSeconds: 60 })
    const none = { queue: 'tenantry.Counted', waiting: 0, active: 0, completed: 0, failed: 0, delayed: 0 }
    expect(await sender.counts()).toEqual([
      { ...none, tenantId: 'acme', waiting: 2, delayed: 1 },
      { ...none, tenantId: null, waiting: 1 },
    ])
    expect(await sender.counts('acme')).toEqual([{ ...none, tenantId: 'acme', waiting: 2, delayed: 1 }])
    expect(await sender.counts('unknown')).toEqual([])
  })
})

/** Ages the names of queues and schedules, as if no process had known them for some days. */
const unknownFor = (days: number, ...names: string[]) =>
  rows(`update multitenancy.job_names set seen_at = now() - interval '${days} days'
    where name in (${names.map((name) => `'${name}'`)})`)

test('waiting jobs and schedules of queues with unprefixed names are removed immediately, the jobs into the dead letters', async () => {
  const Present = type('Present')
  await start([Present])
  const former = new PgBoss({ connectionString: runners.url, schema: 'multitenancy_jobs', supervise: false })
  former.on('error', () => undefined)
  await former.start()
  for (const queue of ['InstallTenant', 'reports']) await former.createQueue(queue)
  await former.send('InstallTenant', { n: 1 }, { group: { id: 'acme' } })
  await former.send('reports', { n: 2 }, { startAfter: 60 })
  await former.schedule('reports', '0 3 * * *')
  await former.stop({ close: true })

  await start([Present]) // it does not keep the schedule and removes nothing
  expect(await lettersIn('tenantry.dead-letter')).toEqual([])
  await start([Present], {})
  expect(await lettersIn('tenantry.dead-letter')).toEqual([
    { source_name: 'InstallTenant', source_retry_count: 0, data: { n: 1 }, group_id: 'acme', later: true },
    { source_name: 'reports', source_retry_count: 0, data: { n: 2 }, group_id: null, later: true },
  ])
  expect([await lettersIn('InstallTenant'), await lettersIn('reports'), await scheduled()]).toEqual([[], [], []])
})

test('waiting jobs of queues that no process has known for a week become dead letters under their old name', async () => {
  const Former = type('Former')
  const Present = type('Present')
  const before = await start([Former, Present])
  await before.send(Former, { n: 2 }, { tenantId: 'acme', key: 'k' })
  await before.send(Former, { n: 3 }, { afterSeconds: 60 })
  await before.send(Present, { n: 4 }, { afterSeconds: 60 })

  await unknownFor(6, 'tenantry.Former', 'tenantry.Present')
  await start([Present], {})
  expect(await lettersIn('tenantry.dead-letter')).toEqual([])
  await unknownFor(8, 'tenantry.Former', 'tenantry.Present')
  await start([Present])
  expect(await lettersIn('tenantry.dead-letter')).toEqual([])
  await start([Present], {})
  expect(await lettersIn('tenantry.dead-letter')).toEqual([
    { source_name: 'tenantry.Former', source_retry_count: 0, data: { n: 2 }, group_id: 'acme', later: true },
    { source_name: 'tenantry.Former', source_retry_count: 0, data: { n: 3 }, group_id: null, later: true },
  ])
  expect(await countsOf(Former)).toEqual([])
  expect(await countsOf(Present)).toMatchObject([{ delayed: 1 }])
})

test('several processes create a schedule once, and it is removed when no process has known it for a week', async () => {
  const Daily = type('Daily')
  const Hourly = type('Hourly')
  await Promise.all(
    [1, 2].map(() =>
      start([Daily, Hourly], {}, [
        { type: Daily, cron: '0 3 * * *' },
        { type: Hourly, cron: '0 * * * *' },
      ]),
    ),
  )
  expect(await scheduled()).toEqual([
    { name: 'tenantry.Daily', cron: '0 3 * * *' },
    { name: 'tenantry.Hourly', cron: '0 * * * *' },
  ])
  // The queue still has workers, but no schedule.
  const later = () => start([Daily, Hourly], {}, [{ type: Daily, cron: '0 4 * * *' }])
  await unknownFor(6, 'tenantry.Hourly')
  await later()
  expect(await scheduled()).toEqual([
    { name: 'tenantry.Daily', cron: '0 4 * * *' },
    { name: 'tenantry.Hourly', cron: '0 * * * *' },
  ])
  await unknownFor(8, 'tenantry.Hourly')
  await later()
  expect(await scheduled()).toEqual([{ name: 'tenantry.Daily', cron: '0 4 * * *' }])
})

describe('concurrent processes of two releases', () => {
  const onlyCommon = () => start([Common], { Common: async () => undefined }, BOTH.slice(0, 1))
  /** Hourly upkeep of each process, in the order of their starts. */
  const hourly = (started: MockInstance<typeof setInterval>) =>
    started.mock.calls.filter(([, ms]) => ms === NOTED_AGAIN_MS).map(([look]) => look as () => void)

  afterEach(() => void vi.restoreAllMocks())

  test('remove nothing of each other, in any order of their starts', async () => {
    await onlyCommon()
    await all()
    await onlyCommon()
    await kept()
  })

  test('note their names every hour and restore missing schedules', async () => {
    const started = vi.spyOn(globalThis, 'setInterval')
    await all()
    await start([Common, Special], undefined, BOTH)
    await onlyCommon()
    const [lookOfAll = expect.fail(), lookOfSender = expect.fail(), lookOfOther = expect.fail()] = hourly(started)
    const isSeen = async (kind: string, name: string) => {
      const seen = await rows(`select seen_at > now() - interval '1 day' as recently
        from multitenancy.job_names where kind = '${kind}' and name = 'tenantry.${name}'`)
      return seen[0]?.recently
    }
    const looked = async (look: () => void, name: string) => {
      await unknownFor(8, `tenantry.${name}`)
      look()
      await eventually(async () => expect(await isSeen('queue', name)).toBe(true))
    }
    await looked(lookOfAll, 'Special')
    expect(await isSeen('schedule', 'Special')).toBe(true)
    await looked(lookOfOther, 'Common')
    await kept()
    // A process that only sends keeps the queue, and schedules nothing.
    await looked(lookOfSender, 'Special')
    expect(await isSeen('schedule', 'Special')).toBe(false)
    await looked(lookOfOther, 'Common')
    expect(await scheduled()).toEqual(EVERYTHING.slice(0, 1))
    expect(await lettersIn('tenantry.dead-letter')).toEqual([])
    await looked(lookOfAll, 'Special')
    await kept()
    await unknownFor(8, 'tenantry.Special')
    await looked(lookOfOther, 'Common')
    expect(await scheduled()).toEqual(EVERYTHING.slice(0, 1))
    expect(await lettersIn('tenantry.dead-letter')).toHaveLength(2)
  })

  test('keep all names after a time in which no process ran', async () => {
    await all()
    await rows(`update multitenancy.job_names set seen_at = seen_at - interval '30 days'`)
    await onlyCommon()
    await kept()
  })

  test('keep a name that another process is noting', async () => {
    await all()
    await unknownFor(8, 'tenantry.Special')
    const { database } = runners
    let starting: Promise<unknown> | undefined
    await database.transaction(async () => {
      await noteNames(database, { queues: ['tenantry.Special'], schedules: ['tenantry.Special'] })
      starting = database.outside(onlyCommon)
      await eventually(async () => {
        const waiting = await rows(`select from ${WAITING_LOCKS} where relation = 'multitenancy.job_names'::regclass`)
        expect(waiting).toHaveLength(1)
      })
    })
    await starting
    await kept()
  })

  test('a process of a single command runs jobs, and neither schedules nor removes', async () => {
    await all()
    const other = type('Other')
    const done = Promise.withResolvers<number>()
    const schedule = [{ type: other, cron: '0 3 * * *' }]
    await unknownFor(8, 'tenantry.Special')
    const command = await start([other], { Other: async ({ n }) => done.resolve(n) }, schedule, { keep: false })
    await command.send(other, { n: 5 })
    expect(await done.promise).toBe(5)
    await kept()
  })
})

test('several processes start concurrently on an empty database', async () => {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const log = createLogger({ level: 'silent' })
  const databases = Array.from({ length: 5 }, () => new Database({ url, max: 3 }, log))
  for (const database of databases.slice(0, 1))
    await migrate(database, [{ part: 'kernel', migrations: kernelPart.tables ?? [] }])
  const all = databases.map((database) => new PgBossJobs(database, log))
  const types = ['A', 'B', 'C'].map((name) => type(name))
  await Promise.all(
    all.map((runner) => runner.start({ types, handlers: new Map(), schedule: [] }, { work: true, keep: true })),
  )
  await Promise.all(all.map((runner) => runner.stop(1_000)))
  await Promise.all(databases.map((database) => database.close()))
  await drop()
})
