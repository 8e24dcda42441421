/** Lives of subscriptions by chance: whatever way events arrive, what is known in the end, and what was published, is the same. */
import { afterAll, beforeAll, inject, test, vi } from 'vitest'
import { fetchNewestFirst, reportInDisorder } from '../reporting.fixture.ts'
import { openWorlds, type Worlds } from '../world.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let worlds: Worlds
beforeAll(async () => {
  worlds = await openWorlds(inject('postgresUrl'))
})
afterAll(() => worlds.end())

test('events that arrive in disorder have the same result as in order', () =>
  reportInDisorder(worlds, { seed: 2, lives: 2, rounds: 4 }))

test('events that are fetched, the newest first, have the same result as in order', () =>
  fetchNewestFirst(worlds, { seed: 3, lives: 2, rounds: 3 }))
