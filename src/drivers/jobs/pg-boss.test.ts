import { PgBoss } from 'pg-boss'
import { describe, expect, test, vi } from 'vitest'
import { lazy } from '../../../test/support/lazy.ts'
import { currentContext, enterContext, SYSTEM } from '../../kernel/base/context.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { type, useRunners } from './runners.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners
describe('send', () => {
  test('starts all jobs of one transaction after its commit, without polling', async () => {
    const Many = type('Many')
    const done = new Set<number>()
    const runner = await start([Many], { Many: async ({ n }) => done.add(n) })
    await runners.database.transaction(async () => {
      for (let n = 0; n < 100; n++) await runner.send(Many, { n })
      expect(done.size).toBe(0)
    })
    // One worker polls, once a second: polling alone would start 15 jobs in this time.
    await eventually(() => expect(done.size).toBe(100), 15_000)
  })

  test('sends nothing if the transaction fails', async () => {
    const Never = type('Never')
    const runner = await start([Never])
    const failing = runners.database.transaction(async () => {
      await runner.send(Never, { n: 1 }, { key: 'a' })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await countsOf(Never)).toEqual([])
    await expect(runner.send(Never, { n: 'one' as never })).rejects.toThrow()
  })

  test('with a key keeps one waiting job, and a job sent during a run starts afterwards', async () => {
    const Keyed = type('Keyed', { workers: 2 })
    const gate = Promise.withResolvers<void>()
    const started: number[] = []
    const sender = await start([Keyed])
    await Promise.all(Array.from({ length: 8 }, () => sender.send(Keyed, { n: 1 }, { key: 'a' })))
    await sender.send(Keyed, { n: 2 }, { key: 'b' })
    expect(await countsOf(Keyed)).toMatchObject([{ waiting: 2 }])
    await start([Keyed], {
      Keyed: async ({ n }) => {
        started.push(n)
        await gate.promise
      },
    })
    await eventually(() => expect(started.toSorted()).toEqual([1, 2]))
    for (let n = 0; n < 3; n++) await sender.send(Keyed, { n: 3 }, { key: 'a' })
    gate.resolve()
    await eventually(async () => expect(await countsOf(Keyed)).toMatchObject([{ completed: 3, waiting: 0 }]))
    expect(started.toSorted()).toEqual([1, 2, 3])
  })
})

describe('sendAll', () => {
  test('creates the same jobs as one send for each job', async () => {
    const Alike = type('Alike')
    const runner = await start([Alike])
    const sent = [
      { data: { n: 1 } },
      { data: { n: 2 }, key: 'a' },
      { data: { n: 3 }, key: 'b', tenantId: 'acme' },
      { data: { n: 4 }, afterSeconds: 3_600 },
      { data: { n: 5 }, afterSeconds: 0 },
    ]
    const jobs = async () => {
      const found = await rows(`select * from multitenancy_jobs.job where name = 'tenantry.Alike' order by data->>'n'`)
      await runners.database.sql('delete from multitenancy_jobs.job')
      return found.map(({ id: _, created_on, start_after, keep_until, singleton_key, ...job }) => ({
        ...job,
        key: singleton_key.length > 1 ? 'any' : singleton_key,
        waits: start_after - created_on,
        kept: keep_until - created_on,
      }))
    }
    for (const { data, ...options } of sent) await runner.send(Alike, data, options)
    const oneByOne = await jobs()
    await runner.sendAll(Alike, sent)
    expect(await jobs()).toEqual(oneByOne)
    expect(oneByOne).toHaveLength(5)
  })

  test('wakes the workers after the commit', async () => {
    const Together = type('Together')
    const done = new Set<number>()
    const runner = await start([Together], { Together: async ({ n }) => done.add(n) })
    await runners.database.transaction(async () => {
      await runner.sendAll(
        Together,
        Array.from({ length: 100 }, (_, n) => ({ data: { n } })),
      )
      expect(done.size).toBe(0)
    })
    // One worker polls, once a second: polling alone would start 15 jobs in this time.
    await eventually(() => expect(done.size).toBe(100), 15_000)
  })

  test('creates at most one waiting job for each key', async () => {
    const Keys = type('Keys')
    const runner = await start([Keys])
    await runner.send(Keys, { n: 1 }, { key: 'a' })
    await runner.sendAll(Keys, [
      { data: { n: 2 }, key: 'a' },
      { data: { n: 3 }, key: 'b' },
      { data: { n: 4 }, key: 'b' },
      { data: { n: 5 }, key: 'c' },
    ])
    const found = await rows(`select data->'n' as n from multitenancy_jobs.job where name = 'tenantry.Keys' order by 1`)
    expect(found.map(({ n }) => n)).toEqual([1, 3, 5])
  })

  test('creates no job for an empty list, a failed transaction, or an invalid payload', async () => {
    const Nothing = type('Nothing')
    const runner = await start([Nothing])
    await runner.sendAll(Nothing, [])
    const failing = runners.database.transaction(async () => {
      await runner.sendAll(Nothing, [{ data: { n: 1 } }])
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await expect(runner.sendAll(Nothing, [{ data: { n: 1 } }, { data: { n: 'one' as never } }])).rejects.toThrow()
    expect(await countsOf(Nothing)).toEqual([])
  })
})

describe('a handler', () => {
  test('runs with the actor system and the job id as request id, outside of the sender’s transaction', async () => {
    const Told = type('Told')
    const contexts: unknown[] = []
    const runner = await start([Told], {
      Told: async () => contexts.push({ ...currentContext(), inTransaction: runners.database.inTransaction }),
    })
    await runners.database.transaction(() => runner.send(Told, { n: 1 }))
    await eventually(() => expect(contexts).toHaveLength(1))
    const [{ id }] = await rows(`select id from multitenancy_jobs.job where name = 'tenantry.Told'`)
    expect(contexts).toEqual([{ requestId: id, actor: SYSTEM, ip: null, tenantId: null, inTransaction: false }])
  })

  test('has the trace of its sender in the context, and not in its data', async () => {
    const Followed = type('Followed')
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const seen: unknown[] = []
    const runner = await start([Followed], {
      Followed: async (data) => seen.push({ data, traceparent: currentContext().traceparent }),
    })
    await enterContext({ ...currentContext(), traceparent }, () => runner.send(Followed, { n: 1 }))
    await eventually(() => expect(seen).toEqual([{ data: { n: 1 }, traceparent }]))
  })

  test('with a lazy promise is awaited in the context of its tenant', async () => {
    const Lazy = type('Lazy')
    const seen: unknown[] = []
    const runner = await start([Lazy], { Lazy: () => lazy(() => seen.push(currentContext().tenantId)) })
    await runner.send(Lazy, { n: 1 }, { tenantId: 'acme' })
    await eventually(() => expect(seen).toEqual(['acme']))
  })

  test('of a noisy tenant does not delay the jobs of an idle tenant', async () => {
    const Fair = type('Fair')
    const sender = await start([Fair])
    await runners.database.transaction(async () => {
      for (let n = 0; n < 200; n++) await sender.send(Fair, { n }, { tenantId: 'loud' })
    })
    for (let n = 1_000; n < 1_005; n++) await sender.send(Fair, { n }, { tenantId: 'quiet' })
    const done: number[] = []
    await start([Fair], {
      Fair: async ({ n }) => {
        await runners.database.sql('select pg_sleep(0.002)')
        done.push(n)
      },
    })
    await eventually(() => expect(done).toHaveLength(205), 20_000)
    expect(done.slice(0, 40).filter((n) => n >= 1_000)).toHaveLength(5)
  })

  test('in progress is awaited by a stop of the runner', async () => {
    const Slow = type('Slow')
    const gate = Promise.withResolvers<void>()
    const steps: string[] = []
    const worker = await start([Slow], {
      Slow: async () => {
        steps.push('begun')
        await gate.promise
        steps.push('done')
      },
    })
    await worker.send(Slow, { n: 1 })
    await eventually(() => expect(steps).toEqual(['begun']))
    const stopped = worker.stop(10_000).then(() => steps.push('stopped'))
    gate.resolve()
    await stopped
    const sender = await start([Slow])
    await sender.send(Slow, { n: 2 })
    expect(steps).toEqual(['begun', 'done', 'stopped'])
    expect(await countsOf(Slow)).toMatchObject([{ completed: 1, waiting: 1, active: 0 }])
  })

  test('in progress is awaited by each of two concurrent stops', async () => {
    const Twice = type('Twice')
    const gate = Promise.withResolvers<void>()
    const steps: string[] = []
    const worker = await start([Twice], {
      Twice: async () => {
        steps.push('begun')
        await gate.promise
        steps.push('done')
      },
    })
    await worker.send(Twice, { n: 1 })
    await eventually(() => expect(steps).toEqual(['begun']))
    const stopped = [1, 2].map(() => worker.stop(10_000).then(() => steps.push('stopped')))
    gate.resolve()
    await Promise.all(stopped)
    await worker.stop(10_000)
    expect(steps).toEqual(['begun', 'done', 'stopped', 'stopped'])
  })
})

test('a stop leaves pg-boss no idle worker to poll for', async () => {
  const Idle = type('Idle')
  const bosses: PgBoss[] = []
  const { work, stop } = PgBoss.prototype
  vi.spyOn(PgBoss.prototype, 'work').mockImplementation(function (this: PgBoss, ...of: Parameters<typeof work>) {
    bosses.push(this)
    return work.apply(this, of)
  } as typeof work)
  const workers = (boss: PgBoss) => boss.getWipData().map(({ name }) => name)
  const left: string[][] = []
  vi.spyOn(PgBoss.prototype, 'stop').mockImplementation(function (this: PgBoss, options) {
    left.push(workers(this))
    return stop.call(this, options)
  })
  const runner = await start([Idle], { Idle: async () => undefined })
  expect(bosses.map(workers)[0]).toEqual(Array(4).fill('tenantry.Idle'))
  await runner.stop(10_000)
  expect(left).toEqual([[]])
})
