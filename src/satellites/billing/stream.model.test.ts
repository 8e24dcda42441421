/**
 * Lives of subscriptions by chance, told in order and in disorder: late, twice, in any order, several events in one second, by several
 * at once, while the provider refuses now and then, and until it has forgotten what it told of. What is known in the end, and what was
 * said, is the same.
 */
import { afterAll, beforeAll, inject, test } from 'vitest'
import { compare, type Event, shuffled, some } from './telling.fixture.ts'
import { openWorlds, type World, type Worlds } from './world.fixture.ts'

const ROUNDS = 14
const LIVES = 3
const SEEDS = [2, 4, 6, 7, 11]
const TIMEOUT_MS = 120_000

let worlds: Worlds
beforeAll(async () => {
  worlds = await openWorlds(inject('postgresUrl'))
})
afterAll(() => worlds.end())

test.each(SEEDS)(
  'told in disorder it comes to the same: seed %i',
  async (seed) => {
    const world = await worlds.open(seed, LIVES)
    const { random, provider, lives, other } = world
    const untold: Event[] = []
    for (const life of lives) await life.begin()
    for (let round = 0; round < ROUNDS; round++) {
      untold.push(...(await world.goOn()))
      if (random.below(3) === 0) await tell(world, some(random, untold))
    }
    for (const life of lives) if (random.below(2) === 0) life.forgotten()
    while (untold.length > 0) await tell(world, some(random, untold))
    await finish(world)
    await compare(world)

    for (const { id } of provider.events) await other.tenancy.billing.inbox.replay(id)
    await finish(world)
    await compare(world)
    await world.end()
  },
  TIMEOUT_MS,
)

async function tell(world: World, events: readonly Event[]): Promise<void> {
  const { random, provider, other } = world
  await other.receive(events)
  if (random.below(3) === 0) provider.faults.answer(random.pick([429, 500]), { times: random.below(4) })
  const waiting = shuffled(random, await other.waiting())
  await work(
    world,
    waiting.filter(() => random.below(4) > 0),
  )
  provider.faults.clear()
  if (random.below(3) === 0) await other.tenancy.billing.dunning.sweep()
}

/** Several at once, as workers would. What fails is found among those that wait, or have failed. */
async function work({ random, other }: World, eventIds: readonly string[]): Promise<void> {
  const left = [...eventIds]
  while (left.length > 0) {
    const together = left.splice(0, 1 + random.below(6))
    const isLast = random.below(2) === 0
    await Promise.allSettled(together.map((id) => other.tenancy.billing.processing.process(id, isLast)))
  }
}

async function finish(world: World): Promise<void> {
  const { random, other } = world
  for (;;) {
    for (const id of await other.failed()) await other.tenancy.billing.inbox.replay(id)
    const waiting = await other.waiting()
    if (waiting.length === 0) break
    await work(world, shuffled(random, waiting))
  }
  await other.tenancy.billing.dunning.sweep()
}
