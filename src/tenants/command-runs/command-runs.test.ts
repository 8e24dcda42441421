/** Runs of a command for many tenants: which tenants a process gets, and how another process continues. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { RunInProgress } from '../tenant/errors.ts'
import type { CommandRuns } from './command-runs.ts'

const IDS = ['t1', 't2', 't3', 't4', 't5']

let world: TestTenancy<[]>
let runs: CommandRuns
/** Those of another process. */
let others: CommandRuns
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  for (const id of [...IDS, 'asleep', 'gone']) await installed(world.tenancy, { id, name: id })
  runs = world.tenancy.tenants.commandRuns
  others = (await world.open()).tenants.commandRuns
  await world.tenancy.tenants.suspend('asleep')
  await world.tenancy.tenants.delete('gone')
})
afterAll(() => world.end())

let run: string
beforeEach(async () => {
  run = await runs.start('active')
})

async function claimAll(by = runs): Promise<string[]> {
  const claimed: string[] = []
  for (let id = await by.claim(run); id !== undefined; id = await by.claim(run)) claimed.push(id)
  return claimed
}

describe('CommandRuns', () => {
  test('a run has the tenants in its status, each once', async () => {
    const workers = await Promise.all([claimAll(), claimAll(), claimAll()])
    expect(workers.flat().toSorted()).toEqual(IDS)
    run = await runs.start('suspended')
    expect(await claimAll()).toEqual(['asleep'])
  })

  test('counts the tenants of a run by state', async () => {
    for (const id of ['t1', 't2', 't3']) expect(await runs.claim(run)).toBe(id)
    await runs.settle(run, 't1', 'done', 0)
    await runs.settle(run, 't2', 'failed', 3)
    expect(await runs.counts(run)).toEqual({ total: 5, pending: 2, running: 1, done: 1, failed: 1, skipped: 0 })
    expect(await runs.failures(run, 10)).toEqual([{ id: 't2', exitCode: 3 }])
  })

  test('skips a tenant that has left the status before its turn', async () => {
    await world.tenancy.tenants.suspend('t1')
    expect(await claimAll()).toEqual(['t2', 't3', 't4', 't5'])
    expect(await runs.counts(run)).toMatchObject({ skipped: 1 })
    await world.tenancy.tenants.activate('t1')
  })

  test('another process cannot resume, claim or settle while the process of the run is alive', async () => {
    expect(await runs.claim(run)).toBe('t1')
    await expect(others.resume(run)).rejects.toThrow(RunInProgress)
    expect(await others.claim(run)).toBeUndefined()
    await others.settle(run, 't1', 'done', 0)
    await others.leave(run)
    expect(await runs.counts(run)).toMatchObject({ running: 1, done: 0 })
    expect(await runs.claim(run)).toBe('t2')
  })

  test('a resumed run has the unfinished and the failed tenants, and the former process gets no more', async () => {
    for (const id of ['t1', 't2', 't3']) expect(await runs.claim(run)).toBe(id)
    await runs.settle(run, 't1', 'done', 0)
    await runs.settle(run, 't2', 'failed', 1)
    await runs.leave(run)
    await others.resume(run)
    expect(await runs.claim(run)).toBeUndefined()
    await runs.settle(run, 't3', 'done', 0)
    expect(await claimAll(others)).toEqual(['t2', 't3', 't4', 't5'])
  })

  test('of several processes, one resumes a run', async () => {
    await runs.leave(run)
    const third = (await world.open()).tenants.commandRuns
    const resumed = await Promise.allSettled([others, third, others, third].map((one) => one.resume(run)))
    expect(resumed.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('another process resumes the run of a process that has ended', async () => {
    const ended = await world.open()
    run = await ended.tenants.commandRuns.start('active')
    expect(await ended.tenants.commandRuns.claim(run)).toBe('t1')
    await ended.stop()
    await runs.resume(run)
    expect(await claimAll()).toEqual(IDS)
  })

  test('an unknown run is not found', async () => {
    for (const id of ['last', '0198c5a4-7b1c-7d2e-8f3a-000000000001']) {
      await expect(runs.resume(id)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    }
  })

  test('keeps the last 20 runs, and those in progress', async () => {
    const killed = await world.open()
    const left = await killed.tenants.commandRuns.start('active')
    await killed.stop()
    const made: string[] = []
    for (let n = 0; n < 22; n++) {
      made.push(await runs.start('active'))
      if (n > 0) await runs.leave(`${made[n]}`)
    }
    await others.resume(`${made[2]}`)
    await expect(others.resume(`${made[1]}`)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    expect(await runs.counts(`${made[0]}`)).toMatchObject({ total: 5 })
    await expect(others.resume(left)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
  })
})
