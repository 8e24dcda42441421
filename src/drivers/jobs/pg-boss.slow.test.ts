/** Tests delayed and failed jobs of pg-boss, with real delays. */
import { describe, expect, test } from 'vitest'
import type { Attempt } from '../../kernel/jobs/jobs.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { type, useRunners } from './runners.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners
const deadLetters = () =>
  rows(`select source_name, data, group_id, source_output from multitenancy_jobs.job
    where name = 'tenantry.dead-letter' order by (data->>'n')::int`)

describe('a job', () => {
  test('with afterSeconds starts after the delay', async () => {
    const Later = type('Later')
    const done: number[] = []
    const runner = await start([Later], { Later: async ({ n }) => done.push(n) })
    await runner.send(Later, { n: 1 }, { afterSeconds: 1 })
    expect(await countsOf(Later)).toMatchObject([{ delayed: 1, waiting: 0 }])
    await runner.send(Later, { n: 2 })
    await eventually(() => expect(done).toEqual([2, 1]))
  })
})

describe('a handler', () => {
  test('that fails is retried after a delay, and its last failure becomes a dead letter without the error message', async () => {
    const Failing = type('Failing', { retries: 2, retryDelaySeconds: 1 })
    const attempts: Pick<Attempt, 'number' | 'isLast'>[] = []
    const runner = await start([Failing], {
      Failing: async (_, { number, isLast }) => {
        attempts.push({ number, isLast })
        throw Object.assign(new Error('the password is hush'), { code: 'E_REASON' })
      },
    })
    await runner.send(Failing, { n: 7 }, { tenantId: 'acme' })
    await eventually(async () => expect(await countsOf(Failing)).toMatchObject([{ delayed: 1, failed: 0 }]))
    await eventually(async () => expect(await deadLetters()).toHaveLength(1), 20_000)
    expect(attempts).toEqual([
      { number: 1, isLast: false },
      { number: 2, isLast: false },
      { number: 3, isLast: true },
    ])
    const [letter] = await deadLetters()
    expect(letter).toMatchObject({ source_name: 'tenantry.Failing', data: { n: 7 }, group_id: 'acme' })
    expect(JSON.stringify(letter)).toContain('E_REASON')
    expect(JSON.stringify(await rows('select * from multitenancy_jobs.job'))).not.toContain('hush')
    expect(await countsOf(Failing)).toMatchObject([{ failed: 1, delayed: 0, waiting: 0 }])
  })

  test('is retried after at most retryDelayMaxSeconds', async () => {
    const Patient = type('Patient', { retryDelaySeconds: 3_600, retryDelayMaxSeconds: 7_200 })
    const Doubling = type('Doubling', { retryDelaySeconds: 3_600 })
    const fail = async () => {
      throw new Error('no')
    }
    const runner = await start([Patient, Doubling], { Patient: fail, Doubling: fail })
    for (const one of [Patient, Doubling]) await runner.send(one, { n: 1 })
    const delays = async () => {
      const found = await rows(`select name, retry_count, extract(epoch from start_after - now())::float8 as seconds
        from multitenancy_jobs.job where state = 'retry' order by name desc`)
      expect(found).toHaveLength(2)
      return found
    }
    await eventually(delays)
    await runners.database.sql(
      `update multitenancy_jobs.job set start_after = now(), retry_count = 1 where state = 'retry'`,
    )
    await eventually(async () => {
      const [patient, doubling] = await delays()
      expect([patient, doubling]).toMatchObject([{ retry_count: 2 }, { retry_count: 2 }])
      expect(patient.seconds).toBeLessThanOrEqual(7_200)
      expect(doubling.seconds).toBeGreaterThan(7_200)
    })
  })

  test('is aborted by a stop, and another worker takes over its job', async () => {
    const Endless = type('Endless', { retryDelaySeconds: 1 })
    let isAborted = false
    const worker = await start([Endless], {
      Endless: (_, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            isAborted = true
            resolve(undefined)
          })
        }),
    })
    await worker.send(Endless, { n: 1 })
    await eventually(async () => expect(await countsOf(Endless)).toMatchObject([{ active: 1 }]))
    await worker.stop(0)
    expect(isAborted).toBe(true)
    const attempts: number[] = []
    await start([Endless], { Endless: async (_, { number }) => attempts.push(number) })
    await eventually(() => expect(attempts).toEqual([2]))
  })
})
