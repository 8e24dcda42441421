/** Delivers a simulation's events in disorder to its second tenancy, and compares both tenancies. */
import { expect } from 'vitest'
import type { Random } from '../../testing/base/seeded-random.ts'
import type { ProviderEvents, Simulation, Simulations } from './simulation.fixture.ts'

export type Event = ProviderEvents[number]

export interface Story {
  readonly seed: number
  readonly lifecycles: number
  readonly rounds: number
}

const LONG_AGO = new Date(0)

/**
 * Delivers events late, twice, in any order and concurrently, with failing responses of the provider, and after the
 * provider has forgotten its objects. Then replays all events.
 */
export async function reportInDisorder(simulations: Simulations, story: Story): Promise<void> {
  const simulation = await simulations.open(story.seed, story.lifecycles)
  const { random, provider, lifecycles, other } = simulation
  const unreported: Event[] = []
  for (const lifecycle of lifecycles) await lifecycle.begin()
  for (let round = 0; round < story.rounds; round++) {
    unreported.push(...(await simulation.goOn()))
    if (random.below(3) === 0) await report(simulation, some(random, unreported))
  }
  for (const lifecycle of lifecycles) if (random.below(2) === 0) lifecycle.forgotten()
  while (unreported.length > 0) await report(simulation, some(random, unreported))
  await finish(simulation)
  await compare(simulation)

  for (const { id } of provider.events) await other.tenancy.billing.inbox.replay(id)
  await finish(simulation)
  await compare(simulation)
  await simulation.end()
}

/** Delivers nothing; fetches the events after each round in the provider's order, newest first. */
export async function fetchNewestFirst(simulations: Simulations, story: Story): Promise<void> {
  const simulation = await simulations.open(story.seed, story.lifecycles)
  for (const lifecycle of simulation.lifecycles) await lifecycle.begin()
  for (let round = 0; round < story.rounds; round++) {
    const since = simulation.provider.now()
    await simulation.goOn()
    await backfill(simulation, round === 0 ? LONG_AGO : since)
    await simulation.other.tenancy.billing.dunning.sweep()
  }
  expect(await simulation.other.failed()).toEqual([])
  await compare(simulation)
  await simulation.end()
}

/** Removes and returns a random selection in random order, with some events twice. */
export function some(random: Random, unreported: Event[]): Event[] {
  const all = unreported.splice(0)
  const reported = all.filter((event) => random.below(3) > 0 || !unreported.push(event))
  return shuffled(
    random,
    reported.flatMap((event) => (random.below(4) === 0 ? [event, event] : [event])),
  )
}

/** The failure message contains all histories. */
export async function compare({ seed, lifecycles, options, reference, other }: Simulation): Promise<void> {
  const histories = lifecycles.map((lifecycle) => `${lifecycle.tenantId}\n  ${lifecycle.history.join('\n  ')}`)
  const story = [`seed ${seed}, ${JSON.stringify(options.dunning)}`, ...histories].join('\n')
  const published = await reference.publishedEvents()
  expect(published.length, story).toBeGreaterThan(0)
  expect(await other.known(), story).toEqual(await reference.known())
  expect(await other.publishedEvents(), story).toEqual(published)
}

function shuffled<T>(random: Random, all: readonly T[]): T[] {
  const left = [...all]
  return all.flatMap(() => left.splice(random.below(left.length), 1))
}

/** Processes each event as soon as it is taken, then the waiting ones. */
async function backfill({ other }: Simulation, since: Date): Promise<void> {
  const { inbox, dependencies, processing } = other.tenancy.billing
  for await (const event of dependencies.payments.events(since)) {
    if (await inbox.take(event)) await processing.process(event.id, true)
  }
  for (let waiting = await other.waiting(); waiting.length > 0; waiting = await other.waiting()) {
    for (const id of waiting.toReversed()) await processing.process(id, true)
  }
}

async function report(simulation: Simulation, events: readonly Event[]): Promise<void> {
  const { random, provider, other } = simulation
  await other.receive(events)
  if (random.below(3) === 0) provider.faults.respond(random.pick([429, 500]), { times: random.below(4) })
  const waiting = shuffled(random, await other.waiting())
  await work(
    simulation,
    waiting.filter(() => random.below(4) > 0),
  )
  provider.faults.clear()
  if (random.below(3) === 0) await other.tenancy.billing.dunning.sweep()
}

/** Processes several events concurrently, as workers do. Failed events stay waiting or failed in the inbox. */
async function work({ random, other }: Simulation, eventIds: readonly string[]): Promise<void> {
  const left = [...eventIds]
  while (left.length > 0) {
    const together = left.splice(0, 1 + random.below(6))
    const isLast = random.below(2) === 0
    await Promise.allSettled(together.map((id) => other.tenancy.billing.processing.process(id, isLast)))
  }
}

async function finish(simulation: Simulation): Promise<void> {
  const { random, other } = simulation
  for (;;) {
    for (const id of await other.failed()) await other.tenancy.billing.inbox.replay(id)
    const waiting = await other.waiting()
    if (waiting.length === 0) break
    await work(simulation, shuffled(random, waiting))
  }
  await other.tenancy.billing.dunning.sweep()
}
