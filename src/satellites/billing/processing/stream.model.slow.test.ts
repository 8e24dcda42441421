/** Runs the model of stream.model.test.ts with more and longer histories. */
import { afterAll, beforeAll, inject, test, vi } from 'vitest'
import { fetchNewestFirst, reportInDisorder } from '../reporting.fixture.ts'
import { openSimulations, type Simulations } from '../simulation.fixture.ts'

vi.setConfig({ testTimeout: 180_000 })

let simulations: Simulations
beforeAll(async () => {
  simulations = await openSimulations(inject('postgresUrl'))
})
afterAll(() => simulations.end())

test.each([2, 4, 6, 7, 11])('events in disorder have the same result as in order: seed %i', (seed) =>
  reportInDisorder(simulations, { seed, lifecycles: 3, rounds: 14 }),
)

test.each([3, 5, 8])('events that are fetched newest first have the same result as in order: seed %i', (seed) =>
  fetchNewestFirst(simulations, { seed, lifecycles: 3, rounds: 6 }),
)
