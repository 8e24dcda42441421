import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
import { openQuotas, type QuotasOpened, STORES, TOKEN } from './quotas.fixture.ts'
import type { Quotas } from './quotas.ts'

const exceeded = expect.objectContaining({ code: 'E_TENANT_QUOTA_EXCEEDED', status: 429 })
const invalid = expect.objectContaining({ code: 'E_INVALID_REQUEST', status: 400 })
const notThere = expect.objectContaining({ code: 'E_TENANT_NOT_FOUND', status: 404 })

describe.each(STORES)('quotas on the store %s', (store) => {
  let all: QuotasOpened
  let quotas: Quotas
  let acme: string

  beforeAll(async () => {
    all = await openQuotas(store)
    quotas = all.opened.tenancy.quotas
  })
  beforeEach(async () => {
    acme = await all.tenant()
  })
  afterAll(() => all.opened.end())

  const midnight = () => new Date(Math.ceil(all.storeNow() / 86_400_000) * 86_400_000).toISOString()

  test('consume counts up to the limit of the plan, and a rejected amount is not counted', async () => {
    expect(await quotas.consume(acme, 'exports')).toBe(1)
    expect(await quotas.consume(acme, 'exports', 8)).toBe(9)
    await expect(quotas.consume(acme, 'exports', 2)).rejects.toEqual(exceeded)
    expect(await quotas.getUsage(acme, 'exports')).toBe(9)
    expect(await quotas.consume(acme, 'exports', 1)).toBe(10)
    await expect(quotas.consume(acme, 'exports')).rejects.toEqual(exceeded)
    expect(await quotas.consume(acme, 'exports', 0)).toBe(10)
  })

  test('decide returns the decision that consume throws', async () => {
    expect(await quotas.decide(acme, 'exports', 7)).toEqual({
      allowed: true,
      usage: 7,
      limit: 10,
      remaining: 3,
      resetAt: midnight(),
      degraded: false,
    })
    expect(await quotas.decide(acme, 'exports', 4)).toMatchObject({ allowed: false, usage: 7, remaining: 3 })
    expect(await quotas.decide(acme, 'exports', 0)).toMatchObject({ allowed: true, usage: 7, remaining: 3 })
  })

  test('track counts beyond the limit', async () => {
    expect(await quotas.track(acme, 'exports', 9)).toBe(9)
    expect(await quotas.track(acme, 'exports', 9)).toBe(18)
    expect(await quotas.decide(acme, 'exports', 1)).toMatchObject({ allowed: false, usage: 18, remaining: 0 })
    expect(await quotas.decide(acme, 'exports', 0)).toMatchObject({ allowed: true, usage: 18 })
  })

  test('a limit of 0 allows none, and a quota without a limit is unlimited', async () => {
    await expect(quotas.consume(acme, 'none')).rejects.toEqual(exceeded)
    expect(await quotas.consume(acme, 'none', 0)).toBe(0)
    expect(await quotas.consume(acme, 'pages', 1e12)).toBe(1e12)
    expect(await quotas.decide(acme, 'pages', 1)).toMatchObject({ allowed: true, limit: null, remaining: null })
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) expect(await quotas.consume(acme, name)).toBe(1)
    expect((await quotas.snapshot(acme)).usage).toMatchObject({ constructor: 1, toString: 1 })
  })

  test('consumeAll counts all of several quotas or none', async () => {
    expect(
      await quotas.consumeAll(acme, [
        { quota: 'exports', amount: 4 },
        { quota: 'seats' },
        { quota: 'pages', amount: 5 },
      ]),
    ).toEqual([4, 1, 5])
    const wanted = [{ quota: 'exports', amount: 1 }, { quota: 'seats', amount: 3 }, { quota: 'pages' }]
    const failure: any = await quotas.consumeAll(acme, wanted).catch((error) => error)
    expect(failure).toEqual(exceeded)
    expect(failure.extras).toMatchObject({ quota: 'seats', limit: 3, usage: 1, requested: 3 })
    expect((await quotas.snapshot(acme)).usage).toEqual({ exports: 4, none: 0, pages: 5, seats: 1 })
    await expect(quotas.consumeAll(acme, [{ quota: 'exports' }, { quota: 'exports' }])).rejects.toEqual(invalid)
    await expect(quotas.consumeAll(acme, [])).rejects.toEqual(invalid)
  })

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '1' as never, null as never])(
    'rejects an amount of %s, and counts nothing',
    async (amount) => {
      for (const attempt of [
        () => quotas.consume(acme, 'exports', amount),
        () => quotas.track(acme, 'exports', amount),
        () => quotas.decide(acme, 'exports', amount),
        () => quotas.check(acme, 'exports', amount),
        () => quotas.consumeAll(acme, [{ quota: 'seats' }, { quota: 'exports', amount }]),
      ]) {
        await expect(attempt()).rejects.toEqual(invalid)
      }
      expect((await quotas.snapshot(acme)).usage).toEqual({ exports: 0, none: 0, seats: 0 })
    },
  )

  test.each(['', 'a:b', 'a b', '{tag}', 'a/b', '-a', 'x'.repeat(65), 'ä', '__proto__'])(
    'rejects the quota name %j',
    async (quota) => {
      await expect(quotas.consume(acme, quota)).rejects.toEqual(invalid)
      await expect(quotas.track(acme, quota)).rejects.toEqual(invalid)
      await expect(quotas.setUsage(acme, quota, 1)).rejects.toEqual(invalid)
      await expect(quotas.getUsage(acme, quota)).rejects.toEqual(invalid)
      await expect(quotas.check(acme, quota)).rejects.toEqual(invalid)
      await expect(quotas.reset(acme, quota)).rejects.toMatchObject({ status: expect.toBeOneOf([400, 404]) })
    },
  )

  test('rejects a count beyond exact integers', async () => {
    await quotas.track(acme, 'bytes', Number.MAX_SAFE_INTEGER)
    await expect(quotas.track(acme, 'bytes', 1)).rejects.toEqual(invalid)
    expect(await quotas.getUsage(acme, 'bytes')).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('a gauge is set, read and checked, and is not part of a counter', async () => {
    await quotas.setUsage(acme, 'seats', 2.5)
    expect(await quotas.getUsage(acme, 'seats')).toBe(2.5)
    expect(await quotas.check(acme, 'seats')).toEqual({
      allowed: false,
      usage: 2.5,
      limit: 3,
      remaining: 0.5,
      resetAt: null,
      degraded: false,
    })
    await quotas.setUsage(acme, 'seats', 2)
    expect(await quotas.check(acme, 'seats')).toMatchObject({ allowed: true, usage: 2 })
    expect(await quotas.check(acme, 'seats', 2)).toMatchObject({ allowed: false })
    expect(await quotas.getUsage(acme, 'seats')).toBe(2)
    expect(await quotas.consume(acme, 'seats', 3)).toBe(3) // the counter of the day starts at 0
    expect(await quotas.getUsage(acme, 'seats')).toBe(3)
    for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(quotas.setUsage(acme, 'seats', value)).rejects.toEqual(invalid)
    }
  })

  test('midnight of the store resets counters, and keeps gauges', async () => {
    await quotas.consume(acme, 'exports', 10)
    await quotas.setUsage(acme, 'seats', 2)
    await quotas.consume(acme, 'both', 7)
    await quotas.setUsage(acme, 'both', 5)
    expect(await quotas.getUsage(acme, 'both')).toBe(7)
    expect((await quotas.snapshot(acme)).gauges).toEqual(['seats'])
    all.toTomorrow()
    expect(await quotas.snapshot(acme)).toMatchObject({
      usage: { both: 5, exports: 0, none: 0, seats: 2 },
      gauges: ['both', 'seats'],
    })
    const decided = await quotas.decide(acme, 'exports')
    expect(decided).toMatchObject({ allowed: true, usage: 1, resetAt: midnight() })
  })

  test('a changed plan applies from the next call on, and resets nothing', async () => {
    await quotas.consume(acme, 'exports', 10)
    await expect(quotas.consume(acme, 'exports')).rejects.toEqual(exceeded)
    await all.opened.tenancy.tenants.setPlan(acme, 'pro')
    expect(await quotas.consume(acme, 'exports', 90)).toBe(100)
    await all.opened.tenancy.tenants.setPlan(acme, 'free')
    expect(await quotas.decide(acme, 'exports')).toMatchObject({ allowed: false, usage: 100, limit: 10, remaining: 0 })
    expect(await quotas.snapshot(acme)).toEqual({
      plan: 'free',
      limits: { exports: 10, seats: 3, none: 0 },
      usage: { exports: 100, none: 0, seats: 0 },
      gauges: [],
    })
  })

  test('reset forgets one quota, or all of exactly one tenant', async () => {
    const other = await all.tenant()
    for (const tenant of [acme, other]) {
      await quotas.consume(tenant, 'exports', 5)
      await quotas.track(tenant, 'pages', 5)
      await quotas.setUsage(tenant, 'seats', 2)
    }
    await quotas.reset(acme, 'exports')
    expect((await quotas.snapshot(acme)).usage).toEqual({ exports: 0, none: 0, pages: 5, seats: 2 })
    await quotas.reset(acme)
    expect((await quotas.snapshot(acme)).usage).toEqual({ exports: 0, none: 0, seats: 0 })
    expect((await quotas.snapshot(other)).usage).toEqual({ exports: 5, none: 0, pages: 5, seats: 2 })
    await expect(quotas.reset(acme, 'exprots')).rejects.toMatchObject({ code: 'E_QUOTA_NOT_FOUND', status: 404 })
    await quotas.reset(other, 'pages') // no plan limits it, and it is counted
  })

  test('concurrent calls are admitted exactly up to the limit', async () => {
    const decided = await Promise.all(Array.from({ length: 200 }, () => quotas.decide(acme, 'exports')))
    expect(decided.filter(({ allowed }) => allowed)).toHaveLength(10)
    expect(
      decided
        .filter(({ allowed }) => allowed)
        .map(({ usage }) => usage)
        .toSorted((a, b) => a - b),
    ).toEqual(Array.from({ length: 10 }, (_, index) => index + 1))
    expect(await quotas.getUsage(acme, 'exports')).toBe(10)
  })

  test('an unknown tenant has no quotas; those of a deleted tenant can only be read', async () => {
    const { tenants } = all.opened.tenancy
    for (const attempt of [
      () => quotas.consume('unknown', 'exports'),
      () => quotas.track('unknown', 'exports'),
      () => quotas.decide('No Id', 'exports'),
      () => quotas.getUsage('unknown', 'exports'),
      () => quotas.setUsage('unknown', 'seats', 1),
      () => quotas.snapshot('unknown'),
      () => quotas.reset('unknown'),
    ]) {
      await expect(attempt()).rejects.toEqual(notThere)
    }
    await quotas.consume(acme, 'exports', 3)
    await tenants.delete(acme)
    await expect(quotas.consume(acme, 'exports')).rejects.toEqual(notThere)
    expect((await quotas.snapshot(acme)).usage).toMatchObject({ exports: 3 })
    await expect(quotas.reset(acme)).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('the rollback of a transaction does not undo consume', async () => {
    const { tenancy } = all.opened
    const refused = tenancy.transaction(async () => {
      await quotas.consume(acme, 'exports', 4)
      throw new Error('no')
    })
    await expect(refused).rejects.toThrow('no')
    expect(await quotas.getUsage(acme, 'exports')).toBe(4)
  })

  test('track inside a transaction counts after the commit, and nothing after a rollback', async () => {
    const { tenancy } = all.opened
    const track = (outcome: () => unknown) =>
      tenancy.transaction(async () => {
        expect(await quotas.track(acme, 'exports', 2)).toBe(2)
        await expect(quotas.track(acme, 'exports', -1)).rejects.toEqual(invalid)
        expect(await quotas.getUsage(acme, 'exports')).toBe(0)
        outcome()
      })
    const rejected = () => {
      throw new Error('no')
    }
    await expect(track(rejected)).rejects.toThrow('no')
    await track(() => undefined)
    await eventually(async () => expect(await quotas.getUsage(acme, 'exports')).toBe(2))
  })

  test('track inside a transaction returns the counter of today with its amount, without the gauge and other amounts', async () => {
    await quotas.setUsage(acme, 'exports', 50)
    const tracked = await all.opened.tenancy.transaction(async () => [
      await quotas.track(acme, 'exports'),
      await quotas.track(acme, 'exports', 2),
    ])
    expect(tracked).toEqual([1, 2])
    await eventually(async () => expect(await quotas.getUsage(acme, 'exports')).toBe(3))
    expect(await all.opened.tenancy.transaction(() => quotas.track(acme, 'exports'))).toBe(4)
  })

  describe('events', () => {
    const recordEvents = (tenantId: string) => {
      const events: string[] = []
      const { tenancy } = all.opened
      const mine = (event: { tenantId: string }) => event.tenantId === tenantId
      const ends = [
        tenancy.on(QuotaTracked, (event) => {
          if (mine(event)) events.push(`tracked ${event.quota} ${event.amount} ${event.usage}`)
        }),
        tenancy.on(QuotaThresholdReached, (event) => {
          if (mine(event)) events.push(`${event.threshold} % of ${event.quota}: ${event.usage} of ${event.limit}`)
        }),
        tenancy.on(TenantQuotaExceeded, (event) => {
          if (mine(event)) events.push(`exceeded ${event.quota}: ${event.usage} + ${event.requested} > ${event.limit}`)
        }),
      ]
      return { events, end: () => ends.map((end) => end()) }
    }

    test('publishes each use, each threshold once a day, and the first rejection of a day', async () => {
      const { events, end } = recordEvents(acme)
      await quotas.consume(acme, 'exports', 7)
      await quotas.consume(acme, 'exports', 0)
      await quotas.consume(acme, 'exports', 1)
      await eventually(() => expect(events).toContain('80 % of exports: 8 of 10'))
      await quotas.consume(acme, 'exports', 1)
      await quotas.consume(acme, 'exports', 1)
      await eventually(() => expect(events).toContain('100 % of exports: 10 of 10'))
      for (let n = 0; n < 3; n++) await quotas.decide(acme, 'exports', 2)
      await eventually(() => expect(events).toContain('exceeded exports: 10 + 2 > 10'))
      await quotas.reset(acme)
      await quotas.consume(acme, 'exports', 10)
      await quotas.decide(acme, 'exports', 2)
      await quotas.alerts.settled()
      end()
      expect(events.toSorted()).toEqual(
        [
          'tracked exports 7 7',
          'tracked exports 1 8',
          '80 % of exports: 8 of 10',
          'tracked exports 1 9',
          'tracked exports 1 10',
          '100 % of exports: 10 of 10',
          'exceeded exports: 10 + 2 > 10',
          'tracked exports 10 10',
        ].toSorted(),
      )
    })

    test('publishes thresholds of gauges and of tracked usage', async () => {
      const { events, end } = recordEvents(acme)
      await quotas.setUsage(acme, 'seats', 2.4)
      await quotas.track(acme, 'exports', 11)
      await eventually(() =>
        expect(events.toSorted()).toEqual([
          '100 % of exports: 11 of 10',
          '80 % of exports: 11 of 10',
          '80 % of seats: 2.4 of 3',
          'tracked exports 11 11',
        ]),
      )
      end()
    })

    test('one of two processes publishes an alert', async () => {
      const other = await all.opened.open()
      const published: EventOf<typeof TenantQuotaExceeded>[] = []
      for (const tenancy of [all.opened.tenancy, other]) {
        tenancy.on(TenantQuotaExceeded, (event) => void (event.tenantId === acme && published.push(event)))
      }
      await Promise.all([quotas.track(acme, 'exports', 10), other.quotas.track(acme, 'pages')])
      const refusals = [quotas, other.quotas].flatMap((one) =>
        Array.from({ length: 20 }, () => one.decide(acme, 'none', 1)),
      )
      await Promise.all(refusals)
      await Promise.all([quotas.alerts.settled(), other.quotas.alerts.settled()])
      await eventually(() => expect(published.map(({ quota }) => quota)).toEqual(['none']))
      await other.stop()
    })

    test('a read publishes nothing', async () => {
      const { events, end } = recordEvents(acme)
      await quotas.setUsage(acme, 'seats', 1)
      await quotas.check(acme, 'seats', 100)
      await quotas.snapshot(acme)
      await quotas.consume(acme, 'exports', 0)
      await quotas.alerts.settled()
      end()
      expect(events).toEqual([])
    })
  })

  describe('quotas over HTTP', () => {
    const decision = { limit: 10, degraded: false }

    test('consume, track and check respond with the decision and the remaining amount', async () => {
      const path = `/tenants/${acme}/quotas/exports`
      const first = await all.call('POST', `${path}/consume`)
      expect([first.status, first.body]).toEqual([
        200,
        { ...decision, allowed: true, usage: 1, remaining: 9, resetAt: midnight() },
      ])
      expect(first.headers.get('ratelimit')).toMatch(/^"exports";r=9;t=\d+$/)
      expect(first.headers.get('ratelimit-policy')).toBe('"exports";q=10;w=86400')
      const refused = await all.call('POST', `${path}/consume`, { amount: 10 })
      expect(refused.body).toMatchObject({
        code: 'E_TENANT_QUOTA_EXCEEDED',
        status: 429,
        quota: 'exports',
        limit: 10,
        usage: 1,
        requested: 10,
        resetAt: midnight(),
        plan: 'free',
      })
      expect(refused.status).toBe(429)
      expect(refused.headers.get('content-type')).toBe('application/problem+json')
      expect(refused.headers.get('ratelimit')).toMatch(/^"exports";r=9;t=\d+$/)
      const seconds = Number(refused.headers.get('retry-after'))
      expect(seconds).toBeGreaterThan(0)
      expect(Math.abs(Date.parse(midnight()) - all.storeNow() - seconds * 1_000)).toBeLessThan(60_000)
      const tracked = await all.call('POST', `${path}/track`, { amount: 10 })
      expect(tracked.body).toMatchObject({ ...decision, allowed: true, usage: 11, remaining: 0 })
      const checked = await all.call('GET', `${path}/check?amount=1`)
      expect(checked.body).toMatchObject({ ...decision, allowed: false, usage: 11 })
    })

    test('usage can be set and reset, and the audit log has the actor', async () => {
      const changes: unknown[] = []
      const end = all.opened.tenancy.on(ChangeRecorded, ({ action, tenantId, after }) => {
        if (tenantId === acme) changes.push([action, after])
      })
      const set = await all.call('PUT', `/tenants/${acme}/quotas/usage`, { quota: 'seats', value: 2 })
      await all.call('PUT', `/tenants/${acme}/quotas/usage`, { quota: 'seats', value: 2 }) // changes nothing
      expect([set.status, set.body.usage]).toEqual([200, { exports: 0, none: 0, seats: 2 }])
      await quotas.consume(acme, 'exports', 3)
      expect((await all.call('GET', `/tenants/${acme}/quotas`)).body.usage).toEqual({ exports: 3, none: 0, seats: 2 })
      const one = await all.call('POST', `/tenants/${acme}/quotas/reset`, { quota: 'exports' })
      expect([one.status, one.body.usage]).toEqual([200, { exports: 0, none: 0, seats: 2 }])
      const both = await all.call('POST', `/tenants/${acme}/quotas/reset`)
      expect(both.body.usage).toEqual({ exports: 0, none: 0, seats: 0 })
      end()
      expect(changes).toEqual([
        ['quotas.setUsage', { quota: 'seats', value: 2 }],
        ['quotas.reset', { quota: 'exports' }],
        ['quotas.reset', {}],
      ])
    })

    test('several quotas are consumed in one request', async () => {
      const path = `/tenants/${acme}/quotas/consume`
      const taken = await all.call('POST', path, { quotas: [{ quota: 'exports', amount: 9 }, { quota: 'seats' }] })
      expect(taken.body.data).toMatchObject([
        { quota: 'exports', usage: 9, remaining: 1 },
        { quota: 'seats', usage: 1, remaining: 2 },
      ])
      const refused = await all.call('POST', path, { quotas: [{ quota: 'seats' }, { quota: 'exports', amount: 2 }] })
      expect([refused.status, refused.body.quota]).toEqual([429, 'exports'])
      expect((await quotas.snapshot(acme)).usage).toEqual({ exports: 9, none: 0, seats: 1 })
    })

    test('a runtime token counts, and cannot reset', async () => {
      const token = `${TOKEN}-runtime`
      const responses = await Promise.all([
        all.call('POST', `/tenants/${acme}/quotas/exports/consume`, {}, token),
        all.call('POST', `/tenants/${acme}/quotas/exports/track`, {}, token),
        all.call('GET', `/tenants/${acme}/quotas/exports/check`, undefined, token),
        all.call('POST', `/tenants/${acme}/quotas/reset`, {}, token),
        all.call('PUT', `/tenants/${acme}/quotas/usage`, { quota: 'seats', value: 1 }, token),
      ])
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 403, 403])
    })

    test.each([
      ['a fraction', { amount: 0.5 }],
      ['a negative amount', { amount: -1 }],
      ['a text', { amount: '1' }],
      ['an amount beyond the maximum', { amount: 2 ** 70 }],
      ['an unknown member', { amuont: 1 }],
    ])('rejects %s', async (_, body) => {
      const { status, body: problem } = await all.call('POST', `/tenants/${acme}/quotas/exports/consume`, body)
      expect([status, problem.code]).toEqual([400, 'E_INVALID_REQUEST'])
      expect(await quotas.getUsage(acme, 'exports')).toBe(0)
    })
  })
})

test('the store memory admits exactly the limit of 1,000 out of 5,000 concurrent calls', async () => {
  const plans = { defaultPlan: 'free', definitions: { free: { limits: { calls: 1_000 } } } }
  const { opened, tenant } = await openQuotas('memory', { plans })
  const { quotas } = opened.tenancy
  const id = await tenant()
  const decided = await Promise.all(Array.from({ length: 5_000 }, () => quotas.decide(id, 'calls')))
  expect(decided.filter(({ allowed }) => allowed)).toHaveLength(1_000)
  expect(await quotas.getUsage(id, 'calls')).toBe(1_000)
  await opened.end()
})
