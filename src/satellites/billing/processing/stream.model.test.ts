/**
 * Tests random histories of subscriptions: final state and published events do not depend on the way in which events
 * arrive.
 */
import { afterAll, beforeAll, inject, test, vi } from 'vitest'
import { fetchNewestFirst, reportInDisorder } from '../reporting.fixture.ts'
import { openSimulations, type Simulations } from '../simulation.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let simulations: Simulations
beforeAll(async () => {
  simulations = await openSimulations(inject('postgresUrl'))
})
afterAll(() => simulations.end())

test('events in disorder have the same result as in order', () =>
  reportInDisorder(simulations, { seed: 2, lifecycles: 2, rounds: 4 }))

test('events that are fetched newest first have the same result as in order', () =>
  fetchNewestFirst(simulations, { seed: 3, lifecycles: 2, rounds: 3 }))
