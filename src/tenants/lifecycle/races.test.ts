/** Concurrent actions on one tenant. */
import { afterAll, beforeAll, inject, test } from 'vitest'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { openRacer } from './racer.fixture.ts'
import { raceAll } from './races.fixture.ts'

const ROUNDS = 1

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => opened.end())

test('two tenancies: every pair of actions from every status has the outcome of a serial order', async () => {
  const racers = await Promise.all([openRacer(opened.url), openRacer(opened.url)])
  await raceAll(opened.tenancy, [racers[0].run, racers[1].run], ROUNDS)
  await Promise.all(racers.map((racer) => racer.stop()))
})
