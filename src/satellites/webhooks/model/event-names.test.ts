/** Valid names and patterns, the patterns that match a name, and the names of Tenantry's events. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { memoryStore } from '../../../drivers/store/memory.ts'
import { dottedName } from '../../../kernel/events/dotted-names.ts'
import { eventsOf } from '../../../tenancy/composition.ts'
import { partsOf } from '../../../tenancy/parts.ts'
import { webhooks } from '../index.ts'
import { EventName, EventPatterns, patternsFor } from './event-names.ts'

const isName = (text: unknown) => EventName.safeParse(text).success
const arePatterns = (all: unknown) => EventPatterns.safeParse(all).success
const LONGEST = `a.${'b'.repeat(126)}`

describe('EventName', () => {
  test.each([
    'a',
    '0',
    '_',
    'order.paid',
    'a.b.c.d',
    'order_line.paid_in_full',
    '2026.01',
    '__proto__',
    'constructor',
    LONGEST,
  ])('accepts %j', (name) => {
    expect(isName(name)).toBe(true)
    expect(arePatterns([name])).toBe(true)
  })

  test.each([
    ...[
      '',
      '.',
      '*',
      'a.',
      '.a',
      'a..b',
      'a.*',
      'A',
      'order.Paid',
      'order-paid',
      'order paid',
      'order/paid',
      'order:paid',
    ],
    ...['a\n', '\na', 'a\r\nx-evil: 1', 'a\0', 'ä', 'ａ', 'a,b', 'a b', '{a}', "a'b", '%2e', `${LONGEST}b`],
    ...[null, undefined, 1, true, ['a'], { toString: () => 'a' }],
  ])('rejects %j', (name) => {
    expect(isName(name)).toBe(false)
  })
})

describe('EventPatterns', () => {
  test.each([
    [['*']],
    [['order.*']],
    [['order.paid', 'order.*', '*']],
    [['a.b.c.*']],
    [Array.from({ length: 100 }, (_, n) => `event_${n}`)],
    [[`${'a'.repeat(126)}.*`]],
  ])('accepts %j', (patterns) => {
    expect(arePatterns(patterns)).toBe(true)
  })

  test.each([
    [[]],
    ['*'],
    [null],
    [{ 0: '*' }],
    [['']],
    [['**']],
    [['*.*']],
    [['*.paid']],
    [['order.*.paid']],
    [['order*']],
    [['order.']],
    [['order.*.']],
    [['order.*\n']],
    [['order.paid\r\nx-evil: 1']],
    [['Order.*']],
    [['a', 'a']],
    [['a', null]],
    [[`${'a'.repeat(127)}.*`]],
    [Array.from({ length: 101 }, (_, n) => `event_${n}`)],
  ])('rejects %j', (patterns) => {
    expect(arePatterns(patterns)).toBe(false)
  })
})

describe('patternsFor', () => {
  test.each([
    ['ping', ['*', 'ping']],
    ['order.paid', ['*', 'order.*', 'order.paid']],
    ['a.b.c.d', ['*', 'a.*', 'a.b.*', 'a.b.c.*', 'a.b.c.d']],
    ['a.a.a', ['*', 'a.*', 'a.a.*', 'a.a.a']],
  ])('returns all patterns of %s', (name, patterns) => {
    expect(patternsFor(name)).toEqual(patterns)
  })

  test.each([
    ['order', 'order.*'],
    ['orders.paid', 'order.*'],
    ['order.paid_back', 'order.paid'],
    ['order.paid', 'order.paid.*'],
    ['order.paid', 'paid.*'],
    ['order_paid', 'order.*'],
  ])('%s does not match %s', (name, pattern) => {
    expect(patternsFor(name)).not.toContain(pattern)
  })

  const part = fc.stringMatching(/^[a-z0-9_]{1,3}$/)
  const name = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.'))
  const pattern = fc.oneof(
    fc.constant('*'),
    name,
    name.map((prefix) => `${prefix}.*`),
  )
  /** A second implementation of the contract. */
  const fits = (name: string, pattern: string) =>
    pattern === '*' || pattern === name || (pattern.endsWith('.*') && name.startsWith(pattern.slice(0, -1)))

  test('matches the contract for any name and any pattern', () => {
    const related = fc.tuple(name, fc.nat(4)).map(([one, cut]): readonly [string, string] => {
      const parts = one.split('.').slice(0, cut + 1)
      return [one, `${parts.join('.')}.*`]
    })
    fc.assert(
      fc.property(fc.oneof(fc.tuple(name, pattern), related), ([name, pattern]) => {
        expect(patternsFor(name).includes(pattern)).toBe(fits(name, pattern))
      }),
    )
  })

  test('returns valid patterns for any name', () => {
    fc.assert(fc.property(name, (name) => arePatterns(patternsFor(name))))
  })
})

describe("Tenantry's own events", () => {
  test.each([
    ['TenantActivated', 'tenant.activated'],
    ['TenantEnteredMaintenance', 'tenant.entered_maintenance'],
    ['TenantProvisioningFailed', 'tenant.provisioning_failed'],
    ['TenantQuotaExceeded', 'tenant.quota_exceeded'],
    ['QuotaThresholdReached', 'quota.threshold_reached'],
    ['WebhookSubscriptionDisabled', 'webhook.subscription_disabled'],
    ['PaymentFailed', 'payment.failed'],
    ['SubscriptionCanceled', 'subscription.canceled'],
    ['Ping', 'ping'],
  ])('%s has the name %s', (type, name) => {
    expect(dottedName(type)).toBe(name)
  })

  test('have unique valid names', () => {
    const names = eventsOf(partsOf(memoryStore(), [webhooks()])).map(({ name }) => dottedName(name))
    expect(names.length).toBeGreaterThan(10)
    expect(new Set(names).size).toBe(names.length)
    expect(names.filter((name) => !isName(name) || !name.includes('.'))).toEqual([])
  })
})
