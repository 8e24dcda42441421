/** Concurrent actions on one tenant. */
import { afterAll, beforeAll, inject, test } from 'vitest'
import { startChild } from '../../../test/support/child.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { raceAll } from './races.fixture.ts'

const ROUNDS = 4

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => opened.end())

test('two processes: every pair of actions from every status has the outcome of a serial order', async () => {
  const program = new URL('./racer-process.fixture.ts', import.meta.url)
  const options = { url: opened.url }
  const children = await Promise.all([startChild(program, options), startChild(program, options)])
  await raceAll(opened.tenancy, [children[0].request, children[1].request], ROUNDS)
  await Promise.all(children.map((child) => child.kill('SIGTERM')))
})
