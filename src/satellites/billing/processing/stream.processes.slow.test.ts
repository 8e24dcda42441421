/**
 * Tests random histories with worker processes that are killed during a request to the provider, within the
 * transaction, and between commit and end of the job: no event is lost, and no event is published twice.
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
const DEATHS: readonly (Death['when'] | 'requesting')[] = ['requesting', 'within', 'after', 'within', 'after']
const TIMEOUT_MS = 180_000
const LOOK_EVERY_MS = 20
/** After this time waiting events get a new job, because a killed or delayed worker would process them much later. */
const SEND_AGAIN_MS = 400

let simulations: Simulations
beforeAll(async () => {
  simulations = await openSimulations(inject('postgresUrl'))
})
afterAll(() => simulations.end())

test.each(SEEDS)(
  'workers that are killed reach the same result: seed %i',
  async (seed) => {
    const simulation = await simulations.open(seed, LIVES)
    const { random, lifecycles, other } = simulation
    const undelivered: Event[] = []
    const deaths = [...DEATHS]
    let killed = 0
    const workUntilKilled = async () => {
      const death = deaths.shift()
      if (death && (await killWorkerAt(simulation, death))) killed += 1
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
    await waitUntilProcessed(simulation)
    await worker.kill('SIGKILL')
    await other.tenancy.billing.dunning.sweep()
    await compare(simulation)
    expect(killed).toBeGreaterThanOrEqual(3)
    await simulation.end()
  },
  TIMEOUT_MS,
)

/** Whether the worker left waiting events behind; false if there was nothing left to process. */
async function killWorkerAt(simulation: Simulation, when: Death['when'] | 'requesting'): Promise<boolean> {
  const held = when === 'requesting' ? simulation.provider.faults.hold() : undefined
  const worker = await startWorker(
    simulation,
    when === 'requesting' ? null : { when, before: simulation.random.below(3) },
  )
  const ended = new AbortController()
  const end = worker.request('end').catch(() => ended.abort())
  held?.arrived.then(() => ended.abort())
  await waitUntilProcessed(simulation, ended.signal)
  await worker.kill('SIGKILL')
  await end
  held?.release()
  return (await simulation.other.waiting()).length > 0
}

function startWorker({ other, options, provider }: Simulation, death: Death | null): Promise<Child> {
  const worker: WorkerOptions = { url: other.url, options, now: provider.now().getTime(), death }
  return startChild(new URL('./stream-process.fixture.ts', import.meta.url), worker)
}

/** Waits until no event waits, or `signal` aborts. */
async function waitUntilProcessed({ other }: Simulation, signal?: AbortSignal): Promise<void> {
  for (let sentAt = performance.now(); !signal?.aborted; await sleep(LOOK_EVERY_MS)) {
    const waiting = await other.waiting()
    if (waiting.length === 0) return
    if (performance.now() - sentAt < SEND_AGAIN_MS) continue
    for (const id of waiting) await other.tenancy.billing.inbox.send(id)
    sentAt = performance.now()
  }
}
