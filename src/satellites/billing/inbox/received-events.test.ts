/** Tests the last state of a subscription among its received events: independent of order, also within one second. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CREATED, type RawSubscription, rawItems, rawSubscription, subjectOfRaw } from '../raw-subscription.fixture.ts'
import { lastOf, type ReceivedEvent } from './received-events.ts'

const VOID = { behavior: 'void', resumes_at: null }

interface Step {
  /** Seconds since the previous step. */
  readonly after: number
  readonly change: RawSubscription
}

/** Events of a subscription as the provider sends them: each change with the previous values. */
function eventsOf(steps: readonly Step[], end?: { readonly after: number }): ReceivedEvent[] {
  let [now, at] = [rawSubscription(), CREATED]
  const received: ReceivedEvent[] = []
  const receive = (type: string, before?: RawSubscription) =>
    received.push({ type, at: new Date(at * 1000), ...subjectOfRaw(type, now, before) })
  receive('customer.subscription.created')
  for (const { after, change } of steps) {
    const before = Object.fromEntries(Object.keys(change).map((name) => [name, now[name]]))
    at += after
    now = { ...now, ...change }
    receive('customer.subscription.updated', before)
    if (change.status === 'paused') receive('customer.subscription.paused')
    if (before.status === 'paused') receive('customer.subscription.resumed')
  }
  if (end) {
    at += end.after
    now = { ...now, status: 'canceled', ended_at: at }
    receive('customer.subscription.deleted')
  }
  return received
}

const change = fc.constantFrom<RawSubscription>(
  { status: 'active' },
  { status: 'paused' },
  { status: 'past_due' },
  { items: rawItems('price_pro') },
  { items: rawItems('price_scale') },
  { pause_collection: VOID },
  { pause_collection: null },
  { cancel_at_period_end: true, cancel_at: CREATED + 1 },
  { cancel_at_period_end: false, cancel_at: null },
)
const steps = fc.array(fc.record({ after: fc.constantFrom(0, 0, 0, 1, 60), change }), { maxLength: 8 })
const end = fc.option(fc.record({ after: fc.constantFrom(0, 1) }), { nil: undefined })

test('lastOf returns the last event, regardless of the order of receipt', () => {
  const histories = fc
    .tuple(steps, end)
    .map(([changes, over]) => eventsOf(changes, over))
    .chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })))
  fc.assert(
    fc.property(histories, ([inOrder, disordered]) => {
      expect(lastOf(disordered)?.subscription).toEqual(inOrder.at(-1)?.subscription)
    }),
    { numRuns: 1_000 },
  )
})

test('lastOf returns the later event if events between are missing', () => {
  const [created, , second] = eventsOf([
    { after: 5, change: { status: 'past_due' } },
    { after: 5, change: { status: 'unpaid' } },
  ])
  expect(lastOf([second, created].filter((one) => one !== undefined))?.subscription.status).toBe('unpaid')
})

test('lastOf returns the event of the later period if two events of one second are otherwise equal', () => {
  const [created] = eventsOf([])
  const renewed = eventsOf([{ after: 0, change: { items: rawItems('price_pro', 1, 1) } }])[1]
  if (!created || !renewed) throw new Error('the subscription has no events')
  expect(lastOf([renewed, created])).toBe(renewed)
  expect(lastOf([created, renewed])).toBe(renewed)
})

test('lastOf returns undefined without events', () => {
  expect(lastOf([])).toBeUndefined()
})
