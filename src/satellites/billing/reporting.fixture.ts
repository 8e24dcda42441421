/** Stories of a world that are told to its other side in disorder, and whether they were understood all the same. */
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
 * Late, twice, in any order, several events in one second, by several at once, while the provider refuses now and then, and until it
 * has forgotten what it told of. Then all of it is replayed.
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

/** Nothing arrives: after each round events are fetched as the provider lists them, the newest first. */
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

/** Takes some of them, some twice, in whatever order. */
export function some(random: Random, unreported: Event[]): Event[] {
  const all = unreported.splice(0)
  const reported = all.filter((event) => random.below(3) > 0 || !unreported.push(event))
  return shuffled(
    random,
    reported.flatMap((event) => (random.below(4) === 0 ? [event, event] : [event])),
  )
}

/** On failure it tells all that has happened. */
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

/** All since then, each processed as soon as it is taken; then those that waited for another. */
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

/** Several at once, as workers would. What fails is found among those that wait, or have failed. */
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
