/**
 * Lives of subscriptions by chance, told in disorder to workers in processes of their own that are killed (SIGKILL): while the provider
 * is asked, in the transaction, and between its commit and the end of the job. No event is lost, and nothing is said twice.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../../test/support/child.ts'
import { compare, type Event, some } from '../reporting.fixture.ts'
import { openSimulations, type Simulation, type Simulations } from '../simulation.fixture.ts'
import type { Death, WorkerOptions } from './stream-process.fixture.ts'

const ROUNDS = 9
const LIVES = 3
const SEEDS = [21, 23]
const DEATHS: readonly (Death['when'] | 'asked')[] = ['asked', 'within', 'after', 'within', 'after']
const TIMEOUT_MS = 180_000
const LOOK_EVERY_MS = 20
/** What its worker has left behind, or would try again much later, is sent again by then. */
const SEND_AGAIN_MS = 400

let simulations: Simulations
beforeAll(async () => {
  simulations = await openSimulations(inject('postgresUrl'))
})
afterAll(() => simulations.end())

test.each(SEEDS)(
  'told to workers that are killed it comes to the same: seed %i',
  async (seed) => {
    const simulation = await simulations.open(seed, LIVES)
    const { random, lifecycles, other } = simulation
    const undelivered: Event[] = []
    const deaths = [...DEATHS]
    let killed = 0
    const workUntilKilled = async () => {
      const death = deaths.shift()
      if (death && (await dies(simulation, death))) killed += 1
    }
    for (const lifecycle of lifecycles) await lifecycle.begin()
    for (let round = 1; round <= ROUNDS; round++) {
      undelivered.push(...(await simulation.goOn()))
      if (round % 3 > 0) continue
      await other.receive(some(random, undelivered))
      await workUntilKilled()
    }
    for (const lifecycle of lifecycles) if (random.below(2) === 0) lifecycle.forgotten()
    while (undelivered.length > 0) await other.receive(some(random, undelivered))
    while (deaths.length > 0) await workUntilKilled()
    const worker = await startWorker(simulation, null)
    await done(simulation)
    await worker.kill('SIGKILL')
    await other.tenancy.billing.dunning.sweep()
    await compare(simulation)
    expect(killed).toBeGreaterThanOrEqual(3)
    await simulation.end()
  },
  TIMEOUT_MS,
)

/** Whether a worker has died so; it has not where nothing was left to do. */
async function dies(simulation: Simulation, when: Death['when'] | 'asked'): Promise<boolean> {
  const held = when === 'asked' ? simulation.provider.faults.hold() : undefined
  const worker = await startWorker(simulation, when === 'asked' ? null : { when, before: simulation.random.below(3) })
  const over = new AbortController()
  const end = worker.request('end').catch(() => over.abort())
  held?.arrived.then(() => over.abort())
  await done(simulation, over.signal)
  await worker.kill('SIGKILL')
  await end
  held?.release()
  return (await simulation.other.waiting()).length > 0
}

function startWorker({ other, options, provider }: Simulation, death: Death | null): Promise<Child> {
  const worker: WorkerOptions = { url: other.url, options, now: provider.now().getTime(), death }
  return startChild(new URL('./stream-process.fixture.ts', import.meta.url), worker)
}

/** Until nothing waits, or there is nobody to wait for. */
async function done({ other }: Simulation, signal?: AbortSignal): Promise<void> {
  for (let sentAt = performance.now(); !signal?.aborted; await sleep(LOOK_EVERY_MS)) {
    const waiting = await other.waiting()
    if (waiting.length === 0) return
    if (performance.now() - sentAt < SEND_AGAIN_MS) continue
    for (const id of waiting) await other.tenancy.billing.inbox.send(id)
    sentAt = performance.now()
  }
}
