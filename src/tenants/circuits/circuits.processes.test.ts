/** Circuits of several processes: shared state, one probe for all, and persistence across a restart. */
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import {
  acme,
  type CircuitEnvironment,
  type CircuitProcess,
  codesOf,
  globex,
  OF_ACME,
  openCircuitEnvironment,
  untilStateIn,
} from './circuits.fixture.ts'

let environment: CircuitEnvironment
let one: CircuitProcess
let work: CircuitEnvironment['work']
beforeEach(async () => {
  environment = await openCircuitEnvironment(inject('postgresUrl'))
  one = await environment.open()
  work = environment.work
})
afterEach(() => environment.end())

const OF_SERVER = { owner: '', key: 'circuit:main', placement: 'main' }

describe('a restarted process', () => {
  test('reads open circuits of tenants and servers, and rejects the first call', async () => {
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await codesOf(one.circuits, globex, work.serverDown, 10)
    await environment.untilKept([OF_SERVER, OF_ACME])
    await one.end()
    environment.clock.advance(10_000)
    const { circuits } = await environment.open()
    expect(circuits.snapshot()).toMatchObject({
      servers: [{ placement: 'main', state: 'OPEN' }],
      tenants: [{ tenantId: 'acme', state: 'OPEN', successes: 0, failures: 0 }],
    })
    expect(() => circuits.check()).toThrow('2 circuits open')
    expect(() => circuits.assertClosed(acme)).toThrow(expect.objectContaining({ retryAfterSeconds: 20 }))
    expect(await codesOf(circuits, globex, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(20_000)
    expect(await codesOf(circuits, acme, work.healthy)).toEqual(['ok'])
    await environment.untilKept([])
  })

  test('after the expiry of the records finds no open circuits', async () => {
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await environment.untilKept([OF_ACME])
    await one.end()
    environment.clock.advance(300_000)
    expect((await environment.open()).circuits.snapshot().tenants).toEqual([])
  })

  test('ignores invalid records', async () => {
    await one.store.set('acme', 'circuit', 'open, I think')
    await one.store.set('globex', 'circuit', '{"openedAt":"yesterday"}')
    expect((await environment.open()).circuits.snapshot().tenants).toEqual([])
  })
})

describe('two processes', () => {
  test('open and close circuits together', async () => {
    const other = await environment.open()
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(other, 'acme', 'OPEN')
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(30_000)
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['ok'])
    await untilStateIn(one, 'acme', 'CLOSED')
    await environment.untilKept([])
    expect(await codesOf(one.circuits, acme, work.healthy)).toEqual(['ok'])
  })

  test('ignore a notification without the signature of the installation', async () => {
    const other = await environment.open()
    const listened: string[] = []
    const listening = await environment.database.listen(
      'multitenancy_circuits',
      (text) => listened.push(text),
      () => undefined,
    )
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(other, 'acme', 'OPEN')
    await eventually(() => expect(listened).toHaveLength(1))
    const { signature, ...message } = JSON.parse(listened[0] ?? '')
    for (const forged of [
      { ...message, name: 'globex' },
      { ...message, name: 'globex', signature },
      { ...message, kind: 'server', name: 'main', signature },
    ])
      await environment.database.notify('multitenancy_circuits', JSON.stringify(forged))
    await environment.database.notify('multitenancy_circuits', 'the last one')
    await eventually(() => expect(listened).toHaveLength(5))
    expect(await codesOf(other.circuits, globex, work.healthy)).toEqual(['ok'])
    expect(other.circuits.snapshot()).toMatchObject({
      servers: [{ state: 'CLOSED' }],
      tenants: [{ tenantId: 'acme' }, { tenantId: 'globex', state: 'CLOSED' }],
    })
    await listening.close()
  })

  test('share a change inside a transaction that is rolled back or aborted', async () => {
    const other = await environment.open()
    const { database, circuits } = one
    const attempt = database.transaction(async () => {
      await database.sql('select 1/0').catch(() => undefined)
      await codesOf(circuits, acme, work.databaseMissing, 10)
      await environment.untilKept([OF_ACME])
      throw new Error('the change is rejected')
    })
    await expect(attempt).rejects.toThrow('the change is rejected')
    await untilStateIn(other, 'acme', 'OPEN')
  })

  test.each(['receive notifications', 'receive no notifications'])(
    'admit one of twenty calls at half-open: processes that %s',
    async (how) => {
      const deaf = how === 'receive no notifications'
      const others = await Promise.all(Array.from({ length: 4 }, () => environment.open({ deaf })))
      for (const { circuits } of others) await codesOf(circuits, acme, work.databaseMissing, deaf ? 10 : 0)
      if (!deaf) await codesOf(one.circuits, acme, work.databaseMissing, 10)
      for (const other of others) await untilStateIn(other, 'acme', 'OPEN')
      await environment.untilKept([OF_ACME])
      environment.clock.advance(30_000)
      let calls = 0
      const { promise, resolve } = Promise.withResolvers<void>()
      const call = () => {
        calls++
        return promise
      }
      const all = Array.from({ length: 20 }, (_, n) => others[n % 4]?.circuits.run(acme, call))
      let rejected = 0
      const settled = Promise.allSettled(all.map((one) => one?.catch(() => (rejected += 1))))
      await eventually(() => expect([calls, rejected]).toEqual([1, 19]))
      // During the probe, calls without the lease are rejected, also after they try to get the lease again.
      for (let seconds = 0; seconds < 3; seconds++) {
        environment.clock.advance(1_000)
        for (const { circuits } of others)
          expect(await codesOf(circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
      }
      resolve()
      await settled
      expect([calls, rejected]).toEqual([1, 19])
    },
  )

  test('probe again after the lease of a killed process has expired', async () => {
    const other = await environment.open()
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(other, 'acme', 'OPEN')
    environment.clock.advance(30_000)
    let isProbing = false
    void one.circuits.run(acme, () => {
      isProbing = true
      return new Promise(() => undefined)
    })
    await eventually(() => expect(isProbing).toBe(true))
    await one.end()
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(29_000)
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(1_000)
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['ok'])
  })

  test('request a lease held by another process once per second, not at every call', async () => {
    const other = await environment.open()
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(other, 'acme', 'OPEN')
    environment.clock.advance(30_000)
    const started = Promise.withResolvers<void>()
    const { promise, reject } = Promise.withResolvers<void>()
    const probe = one.circuits.run(acme, () => {
      started.resolve()
      return promise
    })
    await started.promise
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    reject(new Error('of the host'))
    await expect(probe).rejects.toThrow('of the host')
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['E_CIRCUIT_OPEN'])
    environment.clock.advance(1_000)
    expect(await codesOf(other.circuits, acme, work.healthy)).toEqual(['ok'])
  })

  test('without notifications adopt a later opening before a probe', async () => {
    const deaf = await environment.open({ deaf: true })
    await codesOf(deaf.circuits, acme, work.databaseMissing, 10)
    await untilStateIn(one, 'acme', 'OPEN')
    environment.clock.advance(30_000)
    expect(await codesOf(one.circuits, acme, work.databaseMissing)).toEqual(['3D000'])
    const openedAt = String(environment.clock.now().getTime())
    await eventually(async () => expect(await one.store.get('acme', 'circuit')).toContain(openedAt))
    environment.clock.advance(5_000)
    await expect(deaf.circuits.run(acme, work.healthy)).rejects.toMatchObject({ retryAfterSeconds: 25 })
    environment.clock.advance(25_000)
    expect(await codesOf(deaf.circuits, acme, work.healthy)).toEqual(['ok'])
  })
})

describe('the list of circuits', () => {
  test('has the circuits of all processes, with the time of the next probe', async () => {
    const deaf = await environment.open({ deaf: true })
    const server = { kind: 'server', tenantId: null, state: 'CLOSED', openedAt: null, nextProbeAt: null }
    const closed = [
      { ...server, placement: 'main' },
      { ...server, placement: 'second' },
    ]
    expect(await deaf.circuits.list()).toEqual({ data: closed, openTenants: 0, source: 'store' })

    const inSeconds = (seconds: number) => new Date(environment.clock.now().getTime() + seconds * 1_000).toISOString()
    await codesOf(one.circuits, globex, work.databaseMissing, 10)
    environment.clock.advance(5_000)
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    await codesOf(one.circuits, { ...acme, tenantId: 'initech', placement: 'second' }, work.serverDown, 10)
    const second = { owner: '', key: 'circuit:second', placement: 'second' }
    await environment.untilKept([second, OF_ACME, { ...OF_ACME, owner: 'globex' }])
    const opened = { state: 'OPEN', openedAt: inSeconds(0), nextProbeAt: inSeconds(30) }
    const open = await deaf.circuits.list()
    expect(open.data).toEqual([
      { ...server, placement: 'main' },
      { ...server, placement: 'second', ...opened },
      {
        kind: 'tenant',
        placement: 'main',
        tenantId: 'globex',
        state: 'OPEN',
        openedAt: inSeconds(-5),
        nextProbeAt: inSeconds(25),
      },
      { kind: 'tenant', placement: 'main', tenantId: 'acme', ...opened },
    ])
    expect(open.openTenants).toBe(2)

    environment.clock.advance(25_000)
    const probed = await deaf.circuits.list()
    expect(probed.data.map(({ state }) => state)).toEqual(['CLOSED', 'OPEN', 'HALF_OPEN', 'OPEN'])
    environment.clock.advance(275_000)
    expect((await deaf.circuits.list()).data).toEqual(closed)
  })

  test('has the circuits of one process while the store is unavailable', async () => {
    await environment.database.sql('drop table multitenancy.store')
    await codesOf(one.circuits, acme, work.databaseMissing, 10)
    expect(await one.circuits.list()).toMatchObject({
      data: [{ state: 'CLOSED' }, { state: 'CLOSED' }, { tenantId: 'acme', state: 'OPEN' }],
      openTenants: 1,
      source: 'process',
    })
  })
})

test('a missing table of the store counts as an unavailable store', async () => {
  await environment.database.sql('drop table multitenancy.store')
  expect(await codesOf(one.circuits, acme, work.databaseMissing, 11)).toEqual([
    ...Array(10).fill('3D000'),
    'E_CIRCUIT_OPEN',
  ])
  environment.clock.advance(30_000)
  expect(await codesOf(one.circuits, acme, work.healthy)).toEqual(['ok'])
  // Its opening, the lease of the probe, the release of that, and its closing.
  const degradation = { operation: 'circuit.persist', policy: 'fail-open' }
  await eventually(() => expect(one.degraded).toMatchObject(Array(4).fill(degradation)))
})
