/** Tests the doctor's findings about queues, on real queues with one problem each. */
import { describe, expect, test } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import type { Finding } from '../../kernel/doctor/doctor.ts'
import { queueDiagnosis } from '../../kernel/doctor/queue.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import type { PgBossJobs } from './pg-boss.ts'
import { type, useRunners } from './runners.fixture.ts'

const runners = useRunners()
const { start, rows, countsOf } = runners
const Letters = type('Letters', { retries: 0 })
const Parcels = type('Parcels')

const EXAMINATION = { prove: false, signal: new AbortController().signal, log: createLogger({ level: 'silent' }) }

async function findings(jobs: PgBossJobs): Promise<Finding[]> {
  const found: Finding[] = []
  for await (const finding of queueDiagnosis.examine({ jobs }, EXAMINATION)) found.push(finding)
  return found
}
const codes = async (jobs: PgBossJobs) => (await findings(jobs)).map(({ severity, code }) => `${severity} ${code}`)

/** Ages the due time of jobs. */
const dueFor = ({ name }: { name: string }, minutes: number) =>
  rows(
    `update multitenancy_jobs.job set start_after = now() - interval '${minutes} minutes' where name = 'tenantry.${name}'`,
  )

describe('waiting jobs', () => {
  test('are an error when they have been due for ten minutes and no worker is active', async () => {
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
        message: `3 jobs are due since ${oldest.at.toISOString()}, and no worker runs`,
        remedy: expect.stringContaining('role all or worker'),
      },
    ])
  })

  test('with a delay are not late, regardless of when they were sent', async () => {
    const sender = await start([Letters])
    await sender.send(Letters, { n: 1 }, { afterSeconds: 60 })
    await rows(`update multitenancy_jobs.job set created_on = now() - interval '1 day'`)
    expect(await findings(sender)).toEqual([])
  })

  test('of a queue without workers are a warning while another queue has workers', async () => {
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

  test('behind other jobs of their queue are an information', async () => {
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

test('a job whose worker has lost its heartbeat is a warning', async () => {
  const gate = Promise.withResolvers<void>()
  const worker = await start([Letters], { Letters: () => gate.promise })
  await worker.send(Letters, { n: 1 })
  await eventually(async () => expect(await countsOf(Letters)).toMatchObject([{ active: 1 }]))
  expect(await findings(worker)).toEqual([])
  // In a transaction, so that no worker takes over the job.
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

test('dead letters are reported by their former queue, as a warning for a day and as an information for a year', async () => {
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
    expect(first?.message).toMatch(/^2 jobs of tenantry\.Letters have failed permanently after the last attempt/)
  })
  expect(JSON.stringify(await findings(worker))).not.toContain('hunter2')
  await rows(
    `update multitenancy_jobs.job set created_on = now() - interval '25 hours' where name = 'tenantry.dead-letter'`,
  )
  expect(await codes(worker)).toEqual(['info queue.dead-letters'])
})

test('jobs of an unknown queue are reported as moved to the dead letters', async () => {
  const Gone = type('Gone')
  const sender = await start([Gone, Letters])
  await sender.send(Gone, { n: 1 })
  await start([Letters], {})
  await rows(`update multitenancy.job_names set seen_at = now() - interval '8 days' where name = 'tenantry.Gone'`)
  const worker = await start([Letters], {})
  const [letter] = await rows(`select created_on as at from multitenancy_jobs.job where name = 'tenantry.dead-letter'`)
  const at = letter.at.toISOString()
  expect(await findings(worker)).toEqual([
    {
      severity: 'warn',
      code: 'queue.dead-letters',
      message: `1 job of tenantry.Gone was moved to the dead letters between ${at} and ${at}: no process knows its queue`,
      remedy: expect.stringMatching(/^For a week no process had the satellite or the release/),
    },
  ])
})

test('a missing schedule is reported if a process maintains it, and the fix restores it', async () => {
  const schedule = [Letters, Parcels].map((one) => ({ type: one, cron: '0 3 * * *' }))
  const sender = await start([Letters, Parcels], undefined, schedule)
  await start([Letters], {}, schedule.slice(0, 1))
  expect(await findings(sender)).toEqual([])
  await start([Letters, Parcels], {}, schedule)
  expect(await findings(sender)).toEqual([])
  await rows(`delete from multitenancy_jobs.schedule where name = 'tenantry.Parcels'`)
  const [missing = expect.fail(), ...more] = await findings(sender)
  expect(more).toEqual([])
  expect(missing).toEqual({
    severity: 'warn',
    code: 'queue.unscheduled',
    message: 'no schedule exists for the jobs tenantry.Parcels',
    remedy: expect.stringContaining('tenantry doctor --fix'),
    fixable: true,
  })
  const fix = () => queueDiagnosis.fix?.({ jobs: sender }, missing, EXAMINATION)
  expect(await fix()).toBe('scheduled tenantry.Parcels')
  expect(await findings(sender)).toEqual([])
  expect(await rows(`select name, cron from multitenancy_jobs.schedule order by name`)).toEqual([
    { name: 'tenantry.Letters', cron: '0 3 * * *' },
    { name: 'tenantry.Parcels', cron: '0 3 * * *' },
  ])
  expect(await fix()).toBe('all schedules exist')
})
