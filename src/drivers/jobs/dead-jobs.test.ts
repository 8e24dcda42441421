/** Tests dead letters of real queues: reading them, and sending their jobs again. */
import { expect, test } from 'vitest'
import { NotFound } from '../../kernel/base/errors.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import type { PgBossJobs } from './pg-boss.ts'
import { type Handle, type, useRunners } from './runners.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners
const Letters = type('Letters', { retries: 1, retryDelaySeconds: 0 })

const ALL = [{}, {}, 100] as const

/** Sends a job that fails permanently, and returns its dead letter. */
async function dead(worker: PgBossJobs, n: number, key?: string) {
  await worker.send(Letters, { n }, { tenantId: 'acme', ...(key === undefined ? {} : { key }) })
  return eventually(async () => {
    const found = (await worker.deadJobs.list(...ALL)).find(({ data }) => (data as { n: number }).n === n)
    return found ?? expect.fail('no dead letter')
  })
}

const failing: Handle = async () => {
  throw NotFound('the password is hunter2')
}

test('a dead letter has the queue, tenant, data, attempts and error code of its job, and no message', async () => {
  const worker = await start([Letters], { Letters: failing })
  const letter = await dead(worker, 1)
  expect(letter).toMatchObject({
    queue: 'tenantry.Letters',
    tenantId: 'acme',
    data: { n: 1 },
    error: 'E_NOT_FOUND',
    attempts: 2,
    isOrphaned: false,
  })
  expect(await worker.deadJobs.find(letter.id)).toEqual(letter)
  expect(JSON.stringify(letter)).not.toContain('hunter2')
})

test('a job that is sent again runs with its data, tenant and all attempts, and can become a dead letter again', async () => {
  const attempts: number[] = []
  const worker = await start([Letters], {
    Letters: async ({ n }, attempt) => {
      attempts.push(n)
      if (attempts.length < 4) return failing({ n }, attempt)
    },
  })
  const again = async () => {
    const [letter = expect.fail('no dead letter')] = await worker.deadJobs.list(...ALL)
    return runners.database.transaction(async () => {
      const taken = (await worker.deadJobs.take(letter.id)) ?? expect.fail('taken by another')
      return worker.deadJobs.send(taken)
    })
  }
  await dead(worker, 7)
  expect(await again()).toBe(true)
  await eventually(async () => expect(await countsOf(Letters)).toMatchObject([{ tenantId: 'acme', completed: 1 }]))
  expect(attempts).toEqual([7, 7, 7, 7])
  expect(await worker.deadJobs.list(...ALL)).toEqual([])
})

test('a waiting job of the same key replaces the job of a dead letter', async () => {
  const worker = await start([Letters], { Letters: failing })
  const letter = await dead(worker, 1, 'one')
  await worker.stop(1_000)
  const sender = await start([Letters])
  await sender.send(Letters, { n: 2 }, { key: 'one' })
  const taken = (await sender.deadJobs.take(letter.id)) ?? expect.fail('no dead letter')
  expect(await sender.deadJobs.send(taken)).toBe(true)
  expect(await rows(`select data from multitenancy_jobs.job where state = 'created'`)).toEqual([{ data: { n: 2 } }])
})

test('a job without a registered handler is not sent', async () => {
  const worker = await start([Letters], { Letters: failing })
  const letter = await dead(worker, 1)
  const other = await start([type('Parcels')])
  expect(await other.deadJobs.send(letter)).toBe(false)
})

test('a job of an unknown queue is an orphaned dead letter', async () => {
  const Gone = type('Gone')
  const sender = await start([Gone, Letters])
  await sender.send(Gone, { n: 1 })
  await start([Letters], {})
  await rows(`update multitenancy.job_names set seen_at = now() - interval '8 days' where name = 'tenantry.Gone'`)
  const worker = await start([Letters], {})
  expect(await worker.deadJobs.list(...ALL)).toMatchObject([
    { queue: 'tenantry.Gone', error: null, attempts: 0, isOrphaned: true },
  ])
})
