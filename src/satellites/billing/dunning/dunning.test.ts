/** Tests the state table of dunning, and that the result does not depend on the order and repetition of facts. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ProviderInvoice } from '../model/provider.ts'
import { DunningPolicy } from '../model/settings.ts'
import type { Records } from '../model/tables.ts'
import { type DunningState, dunningStateOf, isFinal, withFailure, withSettlement } from './dunning.ts'

const DAY_MS = 86_400_000
const BEGIN = Date.UTC(2026, 0, 1)
const day = (days: number): Date => new Date(BEGIN + days * DAY_MS)

interface Failure {
  readonly failed: string
  readonly attempt: number
  readonly on: number
  /** Null: the provider makes no further attempt. */
  readonly next: number | null
}
type Fact = Failure | { readonly paid: string } | { readonly ended: number }

interface Known {
  readonly records: Records
  readonly endedAt: Date | null
}
const NOTHING: Known = { records: {}, endedAt: null }

const invoice = (id: string, attempt: number, next: number | null): ProviderInvoice => ({
  id,
  customerId: 'cus_1',
  subscriptionId: 'sub_1',
  status: 'open',
  isFirst: false,
  attempt,
  nextAttemptAt: next === null ? null : day(next),
  amountDue: 2_900,
  amountPaid: 0,
  currency: 'usd',
  periodEnd: day(0),
})

function applyFacts(known: Known, facts: readonly Fact[], policy: DunningPolicy): Known {
  return facts.reduce<Known>(({ records, endedAt }, fact) => {
    if ('ended' in fact) return { records, endedAt: day(fact.ended) }
    if ('paid' in fact) return { records: withSettlement(records, fact.paid), endedAt }
    const { failed, attempt, next, on } = fact
    return { records: withFailure(records, invoice(failed, attempt, next), policy, day(on)), endedAt }
  }, known)
}

const stateAfter = (facts: readonly Fact[], policy: DunningPolicy, now: number): DunningState => {
  const { records, endedAt } = applyFacts(NOTHING, facts, policy)
  return dunningStateOf(records, endedAt, policy, day(now))
}

const policyOf = (maxAttempts: number, graceDays: number): DunningPolicy => ({
  maxAttempts,
  graceDays,
  action: 'suspend',
})
const THREE = policyOf(3, 7)

const failed = (attempt: number, on: number, next: number | null = on + 3, id = 'in_1'): Failure => ({
  failed: id,
  attempt,
  on,
  next,
})
const [FIRST, SECOND, THIRD] = [failed(1, 0), failed(2, 3), failed(3, 6)]
const paid = (id = 'in_1'): Fact => ({ paid: id })
const ended = (on: number): Fact => ({ ended: on })

/** Facts before the row's fact. The number of a row is the day of the evaluation. */
const GOOD: readonly Fact[] = []
const RETRYING: readonly Fact[] = [FIRST]
const IN_GRACE: readonly Fact[] = [FIRST, SECOND, THIRD]

const good = { state: 'good' }
const retrying = (attempt: number) => ({ state: 'retrying', attempt })
const grace = (attempt: number, until: number) => ({ state: 'grace', attempt, until: day(until) })
const over = (attempt: number, until: number) => ({ state: 'over', attempt, until: day(until) })
const gone = (attempt: number) => ({ state: 'ended', attempt })

test.each<[string, readonly Fact[], Fact | null, number, DunningPolicy, object]>([
  ['no failure', GOOD, null, 0, THREE, good],
  ['good, a payment fails', GOOD, FIRST, 0, THREE, retrying(1)],
  ['good, paid', GOOD, paid(), 0, THREE, good],
  ['good, ended', GOOD, ended(1), 1, THREE, good],
  ['good, the only attempt fails', GOOD, FIRST, 0, policyOf(1, 7), grace(1, 7)],
  ['good, a payment fails without further attempts', GOOD, failed(1, 0, null), 0, THREE, grace(1, 7)],
  ['retrying, the next attempt fails', RETRYING, SECOND, 3, THREE, retrying(2)],
  ['retrying, the last attempt fails', [FIRST, SECOND], THIRD, 6, THREE, grace(3, 13)],
  ['retrying, the provider stops early', RETRYING, failed(2, 3, null), 3, THREE, grace(2, 10)],
  ['retrying, many days later', RETRYING, null, 300, THREE, retrying(1)],
  ['retrying, paid', RETRYING, paid(), 1, THREE, good],
  ['retrying, another invoice is paid', RETRYING, paid('in_2'), 1, THREE, retrying(1)],
  ['retrying, ended', RETRYING, ended(1), 1, THREE, gone(1)],
  ['in grace, before its end', IN_GRACE, null, 12.999, THREE, grace(3, 13)],
  ['in grace, exactly at its end', IN_GRACE, null, 13, THREE, over(3, 13)],
  ['in grace, after its end', IN_GRACE, null, 40, THREE, over(3, 13)],
  ['a grace period of zero days', [FIRST, SECOND], THIRD, 6, policyOf(3, 0), over(3, 6)],
  ['a grace period of half a day', [FIRST, SECOND], THIRD, 6.25, policyOf(3, 0.5), grace(3, 6.5)],
  ['in grace, another attempt fails', IN_GRACE, failed(4, 9), 9, THREE, grace(4, 13)],
  ['in grace, paid', IN_GRACE, paid(), 8, THREE, good],
  ['in grace, ended', IN_GRACE, ended(8), 8, THREE, gone(3)],
  ['in grace, ended, and evaluated much later', IN_GRACE, ended(12.999), 40, THREE, gone(3)],
  ['over, paid', IN_GRACE, paid(), 40, THREE, good],
  ['over, ended exactly at the end of the grace period', IN_GRACE, ended(13), 40, THREE, over(3, 13)],
  ['over, ended later', IN_GRACE, ended(20), 40, THREE, over(3, 13)],
  ['ended, paid afterwards', [...IN_GRACE, ended(8)], paid(), 9, THREE, good],
  [
    'ended, and a late failure moves the grace period to an earlier time',
    [SECOND, THIRD, ended(8)],
    failed(1, 0, null),
    9,
    THREE,
    over(3, 7),
  ],
  ['several invoices, one of them paid', [FIRST, failed(2, 1, 4, 'in_2')], paid(), 4, THREE, retrying(2)],
  ['several invoices, all of them paid', [FIRST, failed(2, 1, 4, 'in_2'), paid()], paid('in_2'), 4, THREE, good],
  ['several invoices, one of them exhausted', IN_GRACE, failed(1, 7, 9, 'in_2'), 7, THREE, grace(3, 13)],
  ['several invoices, the exhausted one paid', [...IN_GRACE, failed(1, 7, 9, 'in_2')], paid(), 20, THREE, retrying(1)],
  [
    'several invoices, the grace period of the first one counts',
    IN_GRACE,
    failed(1, 9, null, 'in_2'),
    9,
    THREE,
    grace(3, 13),
  ],
  ['attempts received out of order', [THIRD, FIRST], SECOND, 6, THREE, grace(3, 13)],
  ['attempts received twice', [FIRST, FIRST, SECOND], SECOND, 3, THREE, retrying(2)],
  ['last attempt received twice', IN_GRACE, THIRD, 6, THREE, grace(3, 13)],
  ['last attempt repeated manually, days later', IN_GRACE, failed(3, 8, null), 8, THREE, grace(3, 13)],
  ['only the last attempt received', GOOD, THIRD, 6, THREE, grace(3, 13)],
  ['paid, received before the failure', [paid()], FIRST, 1, THREE, good],
])('dunningStateOf: %s', (_, before, fact, now, policy, expected) => {
  expect(stateAfter(fact ? [...before, fact] : before, policy, now)).toEqual(expected)
})

test.each<[number, number | null, number, boolean]>([
  [1, 3, 3, false],
  [2, 3, 3, false],
  [3, 3, 3, true],
  [4, 3, 3, true],
  [1, null, 3, true],
  [1, 3, 1, true],
])('isFinal for attempt %i, next attempt on day %s, maxAttempts %i is %s', (attempt, next, maxAttempts, expected) => {
  expect(isFinal(invoice('in_1', attempt, next), policyOf(maxAttempts, 7))).toBe(expected)
})

describe('dunningStateOf', () => {
  const id = fc.constantFrom('in_1', 'in_2', 'in_3')
  const failure = fc.record({
    failed: id,
    attempt: fc.integer({ min: 1, max: 5 }),
    on: fc.integer({ min: 0, max: 20 }),
    next: fc.option(fc.integer({ min: 0, max: 30 })),
  })
  const facts = fc
    .tuple(fc.array(failure, { maxLength: 8 }), fc.subarray(['in_1', 'in_2', 'in_3']), fc.option(fc.nat(30)))
    .map(([failures, settled, end]): Fact[] => [
      ...failures,
      ...settled.map((one) => paid(one)),
      ...(end === null ? [] : [ended(end)]),
    ])
  const policy = fc.record({
    maxAttempts: fc.integer({ min: 1, max: 4 }),
    graceDays: fc.constantFrom(0, 0.5, 7),
    action: fc.constant('suspend' as const),
  })
  /** The same facts in another order, each one to three times. */
  const shuffledRepeats = facts.chain((all) => {
    const repeated = fc.array(fc.nat(2), { minLength: all.length, maxLength: all.length })
    const repeatedFacts = repeated.map((times) =>
      all.flatMap((fact, index) => Array(1 + (times[index] ?? 0)).fill(fact) as Fact[]),
    )
    return fc.tuple(
      fc.constant(all),
      repeatedFacts.chain((some) => fc.shuffledSubarray(some, { minLength: some.length })),
    )
  })

  test('does not depend on order and repetition of the facts', () => {
    fc.assert(
      fc.property(shuffledRepeats, policy, fc.nat(40), ([inOrder, disordered], rules, now) => {
        expect(stateAfter(disordered, rules, now)).toEqual(stateAfter(inOrder, rules, now))
      }),
      { numRuns: 2_000 },
    )
  })

  test('does not improve with a further failure, and is good after payment of all invoices', () => {
    const rank = { good: 0, retrying: 1, grace: 2, over: 3, ended: 3 }
    fc.assert(
      fc.property(fc.array(failure, { maxLength: 8 }), failure, policy, fc.nat(40), (before, one, rules, now) => {
        const all = [...before, one]
        expect(rank[stateAfter(all, rules, now).state]).toBeGreaterThanOrEqual(
          rank[stateAfter(before, rules, now).state],
        )
        expect(stateAfter([...all, ...['in_1', 'in_2', 'in_3'].map(paid)], rules, now)).toEqual({ state: 'good' })
      }),
    )
  })

  test('stays over at any later time', () => {
    fc.assert(
      fc.property(facts, policy, fc.nat(40), fc.nat(100), (all, rules, now, later) => {
        const result = stateAfter(all, rules, now)
        fc.pre(result.state === 'over')
        expect(stateAfter(all, rules, now + later)).toEqual(result)
      }),
    )
  })
})

test('DunningPolicy has defaults', () => {
  expect(DunningPolicy.parse({})).toEqual({ maxAttempts: 3, graceDays: 7, action: 'none' })
})
