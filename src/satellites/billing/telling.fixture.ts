/** How a story is told in disorder, and whether it was understood all the same. */
import { expect } from 'vitest'
import type { Random } from '../../testing/seeded-random.ts'
import type { ProviderEvents, World } from './world.fixture.ts'

export type Event = ProviderEvents[number]

/** Takes some of them, some twice, in whatever order. */
export function some(random: Random, untold: Event[]): Event[] {
  const all = untold.splice(0)
  const told = all.filter((event) => random.below(3) > 0 || !untold.push(event))
  return shuffled(
    random,
    told.flatMap((event) => (random.below(4) === 0 ? [event, event] : [event])),
  )
}

export function shuffled<T>(random: Random, all: readonly T[]): T[] {
  const left = [...all]
  return all.flatMap(() => left.splice(random.below(left.length), 1))
}

/** On failure it tells all that has happened. */
export async function compare({ seed, lives, options, reference, other }: World): Promise<void> {
  const told = lives.map((life) => `${life.tenantId}\n  ${life.told.join('\n  ')}`)
  const story = [`seed ${seed}, ${JSON.stringify(options.dunning)}`, ...told].join('\n')
  expect(await other.known(), story).toEqual(await reference.known())
  expect(await other.said(), story).toEqual(await reference.said())
}
