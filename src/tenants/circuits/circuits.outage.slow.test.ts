/** Circuits while their store is unavailable. */
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import {
  acme,
  type CircuitEnvironment,
  type CircuitProcess,
  codesOf,
  globex,
  OF_ACME,
  openCircuitEnvironment,
  stateIn,
  untilStateIn,
} from './circuits.fixture.ts'

let environment: CircuitEnvironment
let wayToStore: Way
let one: CircuitProcess
let work: CircuitEnvironment['work']
beforeEach(async () => {
  environment = await openCircuitEnvironment(inject('postgresUrl'), async (url) => {
    wayToStore = await startProxy(url)
    return wayToStore.url
  })
  one = await environment.open()
  work = environment.work
})
afterEach(async () => {
  await environment.end()
  await wayToStore.close()
})

describe('while the store is unavailable', () => {
  test('a process has its own circuits, publishes DependencyDegraded each time, and stores open ones after the next probe', async () => {
    await wayToStore.close()
    expect(await codesOf(one.circuits, acme, work.databaseMissing, 11)).toEqual([
      ...Array(10).fill('3D000'),
      'E_CIRCUIT_OPEN',
    ])
    environment.clock.advance(30_000)
    expect(await codesOf(one.circuits, acme, work.databaseMissing)).toEqual(['3D000'])
    await codesOf(one.circuits, globex, work.databaseMissing, 10)
    // Two circuits open, and one is probed: its lease, the release of that, and its next opening.
    const degradation = {
      dependency: 'redis',
      operation: 'circuit.persist',
      tenantId: null,
      policy: 'fail-open',
      errorCode: 'E_DEPENDENCY_UNAVAILABLE',
    }
    await eventually(() => expect(one.degraded).toMatchObject(Array(5).fill(degradation)))
    expect(await environment.kept()).toEqual([])
    await wayToStore.open()
    environment.clock.advance(30_000)
    expect(await codesOf(one.circuits, acme, work.databaseMissing)).toEqual(['3D000'])
    await environment.untilKept([OF_ACME])
  })

  test('other processes still receive notifications of open circuits', async () => {
    const other = await environment.open()
    await wayToStore.close()
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(other, 'acme', 'OPEN')
    await wayToStore.open()
  })

  test('a process starts, and reads the open circuits once the store is available', async () => {
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await environment.untilKept([OF_ACME])
    await one.circuits.stop() // its notification has been sent: the next process does not receive it
    await wayToStore.close()
    const late = await environment.open()
    expect(late.circuits.snapshot().tenants).toEqual([])
    await wayToStore.open()
    await codesOf(late.circuits, globex, work.healthy)
    expect(stateIn(late, 'acme')).toBeUndefined()
    environment.clock.advance(5_000)
    await codesOf(late.circuits, globex, work.healthy)
    await untilStateIn(late, 'acme', 'OPEN')
  })
})
