/** The lives of stream.model.test.ts, more and longer ones. */
import { afterAll, beforeAll, inject, test, vi } from 'vitest'
import { fetchNewestFirst, reportInDisorder } from '../reporting.fixture.ts'
import { openWorlds, type Worlds } from '../world.fixture.ts'

vi.setConfig({ testTimeout: 180_000 })

let worlds: Worlds
beforeAll(async () => {
  worlds = await openWorlds(inject('postgresUrl'))
})
afterAll(() => worlds.end())

test.each([2, 4, 6, 7, 11])('events that arrive in disorder have the same result as in order: seed %i', (seed) =>
  reportInDisorder(worlds, { seed, lives: 3, rounds: 14 }),
)

test.each([3, 5, 8])('events that are fetched, the newest first, have the same result as in order: seed %i', (seed) =>
  fetchNewestFirst(worlds, { seed, lives: 3, rounds: 6 }),
)
