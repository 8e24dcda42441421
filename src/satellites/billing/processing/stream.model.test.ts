/** Lives of subscriptions by chance: whatever way events arrive, what is known in the end, and what was published, is the same. */
import { afterAll, beforeAll, inject, test, vi } from 'vitest'
import { fetchNewestFirst, reportInDisorder } from '../reporting.fixture.ts'
import { openSimulations, type Simulations } from '../simulation.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let simulations: Simulations
beforeAll(async () => {
  simulations = await openSimulations(inject('postgresUrl'))
})
afterAll(() => simulations.end())

test('events that arrive in disorder have the same result as in order', () =>
  reportInDisorder(simulations, { seed: 2, lifecycles: 2, rounds: 4 }))

test('events that are fetched, the newest first, have the same result as in order', () =>
  fetchNewestFirst(simulations, { seed: 3, lifecycles: 2, rounds: 3 }))
