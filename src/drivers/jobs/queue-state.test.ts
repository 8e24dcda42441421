/** What the doctor says of queues, on real ones in which exactly that is wrong. */
import { describe, expect, test } from 'vitest'
import type { Finding } from '../../kernel/doctor.ts'
import { createLogger } from '../../kernel/logger.ts'
import { queueDiagnosis } from '../../kernel/queue-diagnosis.ts'
import { eventually } from '../../testing/tenancy.ts'
import type { PgBossJobs } from './pg-boss.ts'
import { type, useRunners } from './runners.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners
const Letters = type('Letters', { retries: 0 })
const Parcels = type('Parcels')

async function findings(jobs: PgBossJobs): Promise<Finding[]> {
  const examination = { prove: false, signal: new AbortController().signal, log: createLogger({ level: 'silent' }) }
  const found: Finding[] = []
  for await (const finding of queueDiagnosis.examine({ jobs }, examination)) found.push(finding)
  return found
}
const codes = async (jobs: PgBossJobs) => (await findings(jobs)).map(({ severity, code }) => `${severity} ${code}`)

/** As if they had been due for so long. */
const dueFor = ({ name }: { name: string }, minutes: number) =>
  rows(
    `update multitenancy_jobs.job set start_after = now() - interval '${minutes} minutes' where name = 'tenantry.${name}'`,
  )

describe('jobs that wait', () => {
  test('are told when they have been due for ten minutes and nobody works on any', async () => {
    const sender = await start([Letters, Parcels])
    for (const n of [1, 2]) await sender.send(Letters, { n })
    await sender.send(Parcels, { n: 3 })
    await dueFor(Letters, 9)
    await dueFor(Parcels, 9)
    expect(await findings(sender)).toEqual([])
    await dueFor(Letters, 11)
    await dueFor(Parcels, 12)
    const [oldest] = await rows(`select min(start_after) as at from multitenancy_jobs.job`)
    expect(await findings(sender)).toEqual([
      {
        severity: 'error',
        code: 'queue.stuck',
        message: `3 jobs are due since ${oldest.at.toISOString()}, and nobody works on any job`,
        remedy: expect.stringContaining('role all or worker'),
      },
    ])
  })

  test('that are to run later are not late, however long ago they were sent', async () => {
    const sender = await start([Letters])
    await sender.send(Letters, { n: 1 }, { afterSeconds: 60 })
    await rows(`update multitenancy_jobs.job set created_on = now() - interval '1 day'`)
    expect(await findings(sender)).toEqual([])
  })

  test('in a queue that nobody takes from, while another is worked on', async () => {
    const sender = await start([Letters, Parcels])
    const gate = Promise.withResolvers<void>()
    const worker = await start([Parcels], { Parcels: () => gate.promise })
    await worker.send(Parcels, { n: 1 })
    await eventually(async () => expect(await countsOf(Parcels)).toMatchObject([{ active: 1 }]))
    await rows(
      `insert into multitenancy_jobs.job (name, data, start_after) values ('tenantry.Letters', '{"n":2}', now() - interval '11 minutes')`,
    )
    expect(await codes(sender)).toEqual(['warn queue.not-taken'])
    gate.resolve()
  })

  test('behind others of their queue are for information', async () => {
    const gate = Promise.withResolvers<void>()
    const worker = await start([{ ...Letters, workers: 1 }], { Letters: () => gate.promise })
    await worker.send(Letters, { n: 1 })
    await eventually(async () => expect(await countsOf(Letters)).toMatchObject([{ active: 1 }]))
    await worker.send(Letters, { n: 2 })
    await dueFor(Letters, 11)
    expect(await codes(worker)).toEqual(['info queue.behind'])
    gate.resolve()
  })
})

test('a job whose worker has fallen silent', async () => {
  const gate = Promise.withResolvers<void>()
  const worker = await start([Letters], { Letters: () => gate.promise })
  await worker.send(Letters, { n: 1 })
  await eventually(async () => expect(await countsOf(Letters)).toMatchObject([{ active: 1 }]))
  expect(await findings(worker)).toEqual([])
  // In a transaction, so that nobody takes it up meanwhile.
  await runners.database.transaction(async () => {
    await rows(
      `update multitenancy_jobs.job set heartbeat_on = now() - interval '3 minutes', started_on = now() - interval '1 hour' where state = 'active'`,
    )
    expect(await findings(worker)).toMatchObject([
      {
        severity: 'warn',
        code: 'queue.heartbeat-lost',
        message: expect.stringMatching(/^1 job of tenantry\.Letters is counted/),
      },
    ])
  })
  gate.resolve()
})

test('jobs that were given up are told by the queue they came from: news for a day, known for a year', async () => {
  const worker = await start([Letters], {
    Letters: async () => {
      throw new Error('the password is hunter2')
    },
  })
  for (const n of [1, 2]) await worker.send(Letters, { n })
  await eventually(async () => {
    const [first, ...more] = await findings(worker)
    expect(more).toEqual([])
    expect(first).toMatchObject({ severity: 'warn', code: 'queue.dead-letters' })
    expect(first?.message).toMatch(/^2 jobs of tenantry\.Letters were given up after the last attempt/)
  })
  expect(JSON.stringify(await findings(worker))).not.toContain('hunter2')
  await rows(
    `update multitenancy_jobs.job set created_on = now() - interval '25 hours' where name = 'tenantry.dead-letter'`,
  )
  expect(await codes(worker)).toEqual(['info queue.dead-letters'])
})
