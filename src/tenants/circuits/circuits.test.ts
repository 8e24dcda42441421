import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { TenantLabels } from '../../kernel/metrics/tenant-labels.ts'
import { CheckFailure } from '../../kernel/resilience/health.ts'
import { TenantIsSuspended } from '../tenant/errors.ts'
import { acme, type CircuitEnvironment, codesOf, globex, openCircuitEnvironment } from './circuits.fixture.ts'
import type { Circuits } from './circuits.ts'

let environment: CircuitEnvironment
let circuits: Circuits
let work: CircuitEnvironment['work']
beforeEach(async () => {
  environment = await openCircuitEnvironment(inject('postgresUrl'))
  circuits = (await environment.open()).circuits
  work = environment.work
})
afterEach(() => environment.end())

const stateOf = (tenantId: string) => circuits.snapshot().tenants.find((one) => one.tenantId === tenantId)?.state
const stateOfServer = (name: string) => circuits.snapshot().servers.find(({ placement }) => placement === name)?.state

describe('a call', () => {
  test('returns the result or the error of its work', async () => {
    expect(await circuits.run(acme, async () => 'answer')).toBe('answer')
    const failure = new Error('of the host')
    await expect(circuits.run(acme, () => Promise.reject(failure))).rejects.toBe(failure)
  })

  test('to an unavailable database is rejected after ten failures, until a probe succeeds after half a minute', async () => {
    expect(await codesOf(circuits, acme, work.databaseMissing, 12)).toEqual([
      ...Array(10).fill('3D000'),
      'E_CIRCUIT_OPEN',
      'E_CIRCUIT_OPEN',
    ])
    let called = false
    const attempt = circuits.run(acme, async () => {
      called = true
    })
    await expect(attempt).rejects.toMatchObject({ status: 503, retryAfterSeconds: 30 })
    environment.clock.advance(29_000)
    await expect(circuits.run(acme, work.healthy)).rejects.toMatchObject({ retryAfterSeconds: 1 })
    expect(called).toBe(false)
    environment.clock.advance(1_000)
    expect(stateOf('acme')).toBe('HALF_OPEN')
    expect(await codesOf(circuits, acme, work.healthy, 3)).toEqual(['ok', 'ok', 'ok'])
    expect(stateOf('acme')).toBe('CLOSED')
  })

  test('that fails as the probe opens the circuit for another half minute', async () => {
    await codesOf(circuits, acme, work.databaseMissing, 10)
    environment.clock.advance(30_000)
    expect(await codesOf(circuits, acme, work.databaseMissing, 2)).toEqual(['3D000', 'E_CIRCUIT_OPEN'])
    environment.clock.advance(29_999)
    expect(await codesOf(circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(1)
    expect(await codesOf(circuits, acme, work.healthy)).toEqual(['ok'])
  })

  test('that is the probe runs alone; after a rejection outside of the database, another call probes', async () => {
    await codesOf(circuits, acme, work.databaseMissing, 10)
    environment.clock.advance(30_000)
    const { promise, reject } = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const probe = circuits
      .run(acme, () => {
        started.resolve()
        return promise
      })
      .catch((error: unknown) => error)
    await started.promise
    expect(await codesOf(circuits, acme, work.healthy, 2)).toEqual(['E_CIRCUIT_OPEN', 'E_CIRCUIT_OPEN'])
    reject(TenantIsSuspended('suspended in between'))
    expect(await probe).toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    expect(stateOf('acme')).toBe('HALF_OPEN')
    expect(await codesOf(circuits, acme, work.healthy)).toEqual(['ok'])
    expect(stateOf('acme')).toBe('CLOSED')
  })

  test('with invalid SQL, or rejected before the database, does not open a circuit', async () => {
    expect(await codesOf(circuits, acme, work.wrongSql, 50)).toEqual(Array(50).fill('22012'))
    const suspended = () => Promise.reject(TenantIsSuspended('suspended'))
    expect(await codesOf(circuits, acme, suspended, 50)).toEqual(Array(50).fill('E_TENANT_SUSPENDED'))
    expect(circuits.snapshot()).toMatchObject({
      servers: [{ placement: 'main', state: 'CLOSED' }],
      tenants: [{ tenantId: 'acme', state: 'CLOSED', successes: 50, failures: 0 }],
    })
  })
})

describe('circuits of servers', () => {
  test("the unavailable database of a tenant opens only that tenant's circuit", async () => {
    await codesOf(circuits, acme, work.databaseMissing, 30)
    expect(await codesOf(circuits, globex, work.healthy, 2)).toEqual(['ok', 'ok'])
    expect([stateOf('acme'), stateOf('globex'), stateOfServer('main')]).toEqual(['OPEN', 'CLOSED', 'CLOSED'])
  })

  test('an unavailable server opens one circuit for calls of all its tenants', async () => {
    const tenants = Array.from({ length: 100 }, (_, n) => ({ tenantId: `t${n}`, placement: 'main', isolation: 'own' }))
    const codes: string[] = []
    for (const tenant of tenants) codes.push(...(await codesOf(circuits, tenant, work.serverDown)))
    expect(codes.map((code) => code === 'ECONNREFUSED')).toEqual(codes.map((_, index) => index < 10))
    expect(codes.slice(10)).toEqual(Array(90).fill('E_CIRCUIT_OPEN'))
    expect(await codesOf(circuits, { ...acme, placement: 'second' }, work.healthy)).toEqual(['ok'])
    expect([stateOf('t0'), stateOf('t99'), stateOf('acme')]).toEqual(['OPEN', 'OPEN', 'CLOSED'])
    expect(() => circuits.check()).toThrow(new CheckFailure('1 circuit open'))
    environment.clock.advance(30_000)
    expect(await codesOf(circuits, tenants[50] ?? acme, work.healthy)).toEqual(['ok'])
    expect(await codesOf(circuits, tenants[7] ?? acme, work.healthy)).toEqual(['ok'])
    expect(stateOfServer('main')).toBe('CLOSED')
  })

  test('a tenant with an open circuit does not probe the server', async () => {
    await codesOf(circuits, acme, work.databaseMissing, 10)
    environment.clock.advance(20_000)
    await codesOf(circuits, globex, work.serverDown, 10)
    environment.clock.advance(10_000)
    await codesOf(circuits, acme, work.healthy) // rejected: the server is still open
    environment.clock.advance(20_000)
    expect(await codesOf(circuits, acme, work.databaseMissing)).toEqual(['3D000'])
    expect([stateOfServer('main'), stateOf('acme')]).toEqual(['CLOSED', 'OPEN'])
    expect(await codesOf(circuits, globex, work.healthy)).toEqual(['ok'])
  })

  test('a driver without a server has no circuit of a server', async () => {
    const { circuits } = await environment.open({
      reach: (name) => (name === 'memory' ? 'no server' : 'shared database'),
    })
    const inMemory = { ...acme, isolation: 'memory' }
    await codesOf(circuits, { ...globex, isolation: 'schema-pg' }, work.serverDown, 10)
    expect(await codesOf(circuits, inMemory, async () => 1)).toEqual(['ok'])
    expect(() => circuits.assertClosed(inMemory)).not.toThrow()
  })
})

describe('circuits without a call', () => {
  test('assertClosed throws the remaining seconds of an open circuit, admits a due probe, and counts nothing', async () => {
    expect(() => circuits.assertClosed(acme)).not.toThrow()
    expect(circuits.snapshot().tenants).toEqual([])
    await codesOf(circuits, acme, work.databaseMissing, 10)
    environment.clock.advance(12_500)
    expect(() => circuits.assertClosed(acme)).toThrow(
      expect.objectContaining({ code: 'E_CIRCUIT_OPEN', status: 503, retryAfterSeconds: 18 }),
    )
    expect(() => circuits.assertClosed(globex)).not.toThrow()
    environment.clock.advance(17_500)
    expect(() => circuits.assertClosed(acme)).not.toThrow()
    const { promise, resolve } = Promise.withResolvers<void>()
    const probe = circuits.run(acme, () => promise)
    expect(() => circuits.assertClosed(acme)).toThrow(expect.objectContaining({ retryAfterSeconds: 1 }))
    resolve()
    await probe
    expect(() => circuits.assertClosed(acme)).not.toThrow()
  })

  test('the health check counts open circuits, each server as one', async () => {
    expect(circuits.check()).toBeUndefined()
    await codesOf(circuits, acme, work.databaseMissing, 10)
    expect(() => circuits.check()).toThrow(new CheckFailure('1 circuit open'))
    await codesOf(circuits, { tenantId: 'initech', placement: 'second' }, work.serverDown, 10)
    await codesOf(circuits, globex, work.databaseMissing, 10)
    expect(() => circuits.check()).toThrow(new CheckFailure('3 circuits open'))
    environment.clock.advance(30_000)
    expect(circuits.check()).toBeUndefined()
  })

  test('an unused open circuit counts as closed after its record has expired', async () => {
    await codesOf(circuits, acme, work.databaseMissing, 10)
    environment.clock.advance(300_000)
    expect(stateOf('acme')).toBe('CLOSED')
    expect(await codesOf(circuits, acme, work.databaseMissing, 11)).toEqual([
      ...Array(10).fill('3D000'),
      'E_CIRCUIT_OPEN',
    ])
  })
})

test('the rule is configurable', async () => {
  const { circuits } = await environment.open({ rule: { threshold: 0.1, minimumCalls: 3, halfOpenAfterSeconds: 1 } })
  expect(await codesOf(circuits, acme, work.healthy, 2)).toEqual(['ok', 'ok'])
  expect(await codesOf(circuits, acme, work.databaseMissing, 2)).toEqual(['3D000', 'E_CIRCUIT_OPEN'])
  environment.clock.advance(1_000)
  expect(await codesOf(circuits, acme, work.healthy)).toEqual(['ok'])
})

test('tenants without their own series share counts and have no timer', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const { circuits } = await environment.open({ labels: new TenantLabels(1), deaf: true })
  const before = timers()
  for (let n = 0; n < 5_000; n++) await circuits.run({ tenantId: `t${n}`, placement: 'main' }, async () => n)
  expect(timers()).toBe(before)
  expect(circuits.snapshot()).toMatchObject({
    tenants: [{ tenantId: 't0', successes: 1 }],
    others: { state: 'CLOSED', successes: 4_999, failures: 0 },
  })
})
