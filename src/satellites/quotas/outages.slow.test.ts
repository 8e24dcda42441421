/**
 * Outages of the store behind a TCP proxy: refused, unresponsive and slow. The policy decides within the time-out, publishes an
 * event, and uses the store again after its recovery.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { FAULTS, repair, storeBehind, TIMEOUT_MS } from '../../../test/support/store-outages.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { DependencyDegraded, type ResilienceConfig } from '../../kernel/resilience/resilience.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually, installed } from '../../testing/base/tenancy.ts'
import type { quotas } from './index.ts'
import { openQuotas, type QuotasOpened } from './quotas.fixture.ts'

/** Longer than any response takes. */
const WAIT_TIMEOUT_MS = 10_000

describe.each(['redis', 'postgres'] as const)('quotas while the store %s', (store) => {
  let way: Way
  let all: QuotasOpened
  let closed: Tenancy<[ReturnType<typeof quotas>]>
  let acme: string
  const degraded: EventOf<typeof DependencyDegraded>[] = []

  beforeAll(async () => {
    way = await startProxy(inject(`${store}Url`))
    const options = (quota: 'fail-open' | 'fail-closed') => ({
      store: storeBehind[store](way.url),
      resilience: { redis: { quota }, retryAfterSeconds: 7 } satisfies ResilienceConfig,
    })
    all = await openQuotas(store, options('fail-open'))
    closed = await all.opened.open(options('fail-closed'))
    await all.opened.open({ role: 'worker' }) // installs tenants
    for (const tenancy of [all.opened.tenancy, closed]) {
      tenancy.on(DependencyDegraded, (event) => void (event.operation.startsWith('quotas') && degraded.push(event)))
    }
  })
  beforeEach(async () => {
    acme = await all.tenant()
    degraded.length = 0
  })
  const comeBack = async () => {
    await repair(way)
    for (const { quotas } of [all.opened.tenancy, closed]) {
      await eventually(async () => expect(await quotas.decide(acme, 'probe')).toMatchObject({ degraded: false }))
    }
  }
  afterEach(comeBack)
  afterAll(async () => {
    await all.opened.end()
    await way.close()
  })

  const within = <T>(work: Promise<T>): Promise<T> => {
    const late = new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error('the call hangs')), WAIT_TIMEOUT_MS).unref()
    })
    return Promise.race([work, late])
  }

  describe.each(Object.entries(FAULTS))('%s', (_, happen) => {
    test('fail-open allows every call with an event; after the outage, earlier counts apply again', async () => {
      const { quotas } = all.opened.tenancy
      await quotas.consume(acme, 'exports', 10)
      await expect(quotas.consume(acme, 'exports')).rejects.toMatchObject({ status: 429 })
      const before = decisions(all.opened.tenancy)
      await happen(way)
      expect(await within(quotas.consume(acme, 'exports', 5))).toBe(0)
      expect(await within(quotas.track(acme, 'exports'))).toBe(0)
      expect(await within(quotas.consumeAll(acme, [{ quota: 'exports' }, { quota: 'seats' }]))).toEqual([0, 0])
      expect(await within(quotas.decide(acme, 'exports', 5))).toMatchObject({
        allowed: true,
        usage: 0,
        limit: 10,
        remaining: 10,
        degraded: true,
      })
      expect(await within(quotas.check(acme, 'exports', 5))).toMatchObject({ allowed: true, degraded: true })
      expect(await within(quotas.getUsage(acme, 'exports'))).toBe(0)
      expect(degraded.map(({ policy }) => policy)).toEqual(new Array(6).fill('fail-open'))
      expect(degraded[0]).toMatchObject({ dependency: 'redis', operation: 'quotas.consume', tenantId: acme })
      expect(decisions(all.opened.tenancy).degraded).toBe((before.degraded ?? 0) + 4)

      const answered = await within(all.call('POST', `/tenants/${acme}/quotas/exports/consume`, {}))
      expect([answered.status, answered.body]).toMatchObject([200, { allowed: true, degraded: true }])
      expect(answered.headers.get('ratelimit')).toBeNull()
      await expect(within(quotas.consume(acme, 'exports', -1))).rejects.toMatchObject({ status: 400 })
      await comeBack()
      await expect(quotas.consume(acme, 'exports')).rejects.toMatchObject({ status: 429 })
      // A slow store may have counted calls without a response: up to all tracked ones.
      const counted = await quotas.getUsage(acme, 'exports')
      expect(counted).toBeGreaterThanOrEqual(10)
      expect(counted).toBeLessThanOrEqual(11)
    })

    test('the time-out ends the wait', async () => {
      const withLongTimeout = await all.opened.open({ store: storeBehind[store](way.url, 60_000) })
      await withLongTimeout.quotas.consume(acme, 'exports')
      await happen(way)
      if (happen === FAULTS['is cut off']) {
        expect(await within(withLongTimeout.quotas.decide(acme, 'exports'))).toMatchObject({ degraded: true })
      } else {
        const result = withLongTimeout.quotas.decide(acme, 'exports').then(() => 'answered')
        const stillWaiting = new Promise((resolve) => setTimeout(resolve, 3 * TIMEOUT_MS, 'still waiting'))
        expect(await Promise.race([result, stillWaiting])).toBe('still waiting')
      }
      await comeBack()
      await withLongTimeout.stop()
    })

    test('fail-closed responds with 503 and Retry-After, never with 429', async () => {
      await closed.quotas.consume(acme, 'exports', 10)
      await happen(way)
      const refused = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: 7 }
      for (const attempt of [
        () => closed.quotas.consume(acme, 'exports'),
        () => closed.quotas.track(acme, 'exports'),
        () => closed.quotas.decide(acme, 'exports'),
        () => closed.quotas.check(acme, 'exports'),
        () => closed.quotas.getUsage(acme, 'exports'),
      ]) {
        await expect(within<unknown>(attempt())).rejects.toMatchObject(refused)
      }
      expect(degraded.map(({ policy }) => policy)).toEqual(new Array(5).fill('fail-closed'))
      expect(decisions(closed).unavailable).toBeGreaterThanOrEqual(3)
    })

    test('a track in a tenant’s transaction waits, and counts once after the outage', async () => {
      const { tenancy } = all.opened
      acme = `acme-${uuidv7()}`
      await installed(tenancy, { id: acme, name: 'Acme' })
      const { transaction } = await tenancy.tenant(acme)
      await happen(way)
      await within(transaction(() => tenancy.quotas.track(acme, 'pages', 3)))
      await tenancy.tenants.outbox.settled()
      await comeBack()
      await eventually(async () => expect(await tenancy.quotas.getUsage(acme, 'pages')).toBe(3))
      await tenancy.tenants.outbox.settled()
      expect(await tenancy.quotas.getUsage(acme, 'pages')).toBe(3)
    })

    test('writes and reads of exact numbers respond with 503 under any policy', async () => {
      const { quotas } = all.opened.tenancy
      await quotas.setUsage(acme, 'seats', 2)
      await happen(way)
      const refused = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: 7 }
      for (const attempt of [
        () => quotas.setUsage(acme, 'seats', 3),
        () => quotas.correct(acme, 'seats', 3),
        () => quotas.reset(acme),
        () => quotas.snapshot(acme),
      ]) {
        await expect(within<unknown>(attempt())).rejects.toMatchObject(refused)
      }
      expect((await within(all.call('GET', `/tenants/${acme}/quotas`))).headers.get('retry-after')).toBe('7')
      expect(degraded).toEqual([])
    })
  })
})

function decisions(tenancy: Tenancy<[ReturnType<typeof quotas>]>): Record<string, number> {
  const samples = tenancy.quotas.counts.series().collect() as Iterable<{ labels: { decision: string }; value: number }>
  return Object.fromEntries([...samples].map(({ labels, value }) => [labels.decision, value]))
}
