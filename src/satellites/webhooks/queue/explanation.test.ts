/** Explanations of deliveries in each state. */
import { expect, test } from 'vitest'
import { type DeliveryContext, type ExplainedDelivery, type ExplainedSubscription, explain } from './explanation.ts'

const NOW = new Date('2026-01-31T12:00:00Z')
const LATER = new Date('2026-01-31T12:05:00Z')
const EARLIER = new Date('2026-01-31T11:55:00Z')

const FRESH: ExplainedDelivery = {
  state: 'pending',
  isReady: true,
  dueAt: EARLIER,
  attemptCount: 0,
  budgetStart: 0,
  lastStatus: null,
  lastError: null,
  deliveredAt: null,
}
const SETTLED = { isReady: false, dueAt: null } as const
const WAITING = { state: 'retry_scheduled', isReady: false, dueAt: LATER } as const
const FAILED = { state: 'failed', ...SETTLED } as const
const ENABLED: ExplainedSubscription = {
  enabled: true,
  disabledReason: null,
  deletedAt: null,
  failingSince: null,
  tenantId: 'acme',
}
const IDLE: DeliveryContext = {
  now: NOW,
  maxAttempts: 5,
  perSubscription: 16,
  perTenant: 32,
  inFlight: { toSubscription: 0, ofPartition: 0 },
}
const DISABLED = { enabled: false } as const
const GONE = { enabled: false, disabledReason: 'gone' } as const
const FAILING = { enabled: false, disabledReason: 'failing' } as const
const DELETED = { deletedAt: EARLIER } as const

test.each<[string, Partial<ExplainedDelivery>, Partial<ExplainedSubscription>, string]>([
  ['that is new', {}, {}, 'Waiting for a worker. No attempt was made yet.'],
  [
    'replayed after 5 attempts',
    { attemptCount: 5, budgetStart: 5, lastStatus: 500 },
    {},
    'Replayed after 5 attempts. Waiting for a worker.',
  ],
  [
    'replayed after one attempt',
    { attemptCount: 1, budgetStart: 1, lastStatus: 200 },
    {},
    'Replayed after one attempt. Waiting for a worker.',
  ],
  [
    'whose attempt was aborted',
    { attemptCount: 1, budgetStart: 1, lastError: 'aborted' },
    {},
    'Attempt 1 was aborted when its worker stopped. Waiting for a worker.',
  ],
  ['whose subscription is disabled', {}, DISABLED, 'Not sent: the subscription is disabled. The delivery will fail.'],
  [
    'pending, whose receiver is gone',
    {},
    GONE,
    'Not sent: the subscription was disabled when its receiver responded with 410. The delivery will fail.',
  ],
  [
    'pending, whose subscription is disabled for failures',
    {},
    FAILING,
    'Not sent: the subscription was disabled after 5 days of failures only. The delivery will fail.',
  ],
  ['whose subscription is deleted', {}, DELETED, 'Not sent: the subscription is deleted. The delivery will fail.'],

  [
    'claimed for the first attempt',
    { state: 'delivering', isReady: false, dueAt: LATER },
    {},
    'A worker has claimed it: attempt 1 is in progress, or starts when the worker has a free connection.',
  ],
  [
    'claimed for the third attempt',
    { state: 'delivering', isReady: false, dueAt: LATER, attemptCount: 2 },
    {},
    'A worker has claimed it: attempt 3 is in progress, or starts when the worker has a free connection.',
  ],
  [
    'with an expired lease',
    { state: 'delivering', isReady: false, dueAt: NOW },
    {},
    'The lease of its worker has expired. Another worker will send it again.',
  ],
  [
    'with an expired lease, made ready by a claim',
    { state: 'delivering', isReady: true, dueAt: EARLIER },
    {},
    'The lease of its worker has expired. Another worker will send it again.',
  ],

  [
    'waiting for a retry after a response',
    { ...WAITING, attemptCount: 1, lastStatus: 503 },
    {},
    'One attempt was made, the last with status 503. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 4.',
  ],
  [
    'waiting for its last attempt after a timeout',
    { ...WAITING, attemptCount: 4, lastError: 'timeout' },
    {},
    '4 attempts were made, the last with timeout. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 1.',
  ],
  [
    'waiting for a retry after a replay',
    { ...WAITING, attemptCount: 7, budgetStart: 5, lastStatus: 404 },
    {},
    '7 attempts were made, the last with status 404. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 3.',
  ],
  [
    'due for a retry',
    { ...WAITING, dueAt: NOW, attemptCount: 1, lastStatus: 302 },
    {},
    'One attempt was made, the last with status 302. The next attempt starts as soon as a worker is free. Attempts left: 4.',
  ],
  [
    'due for a retry, made ready by a claim',
    { ...WAITING, isReady: true, attemptCount: 1, lastError: null },
    {},
    'One attempt was made, the last with no response. The next attempt starts as soon as a worker is free. Attempts left: 4.',
  ],
  [
    'whose retry was aborted',
    { ...WAITING, isReady: true, attemptCount: 2, budgetStart: 1, lastStatus: 500, lastError: 'aborted' },
    {},
    'Attempt 2 was aborted when its worker stopped. The next attempt starts as soon as a worker is free. Attempts left: 4.',
  ],
  [
    'waiting after an incomplete response',
    { ...WAITING, attemptCount: 1, lastStatus: 200, lastError: 'timeout' },
    {},
    'One attempt was made, the last with status 200, timeout. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 4.',
  ],
  [
    'whose secret cannot be decrypted after one attempt',
    { ...WAITING, attemptCount: 1, lastError: 'its secret cannot be decrypted' },
    {},
    'Not sent: its secret cannot be decrypted. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 4.',
  ],
  [
    'waiting, with more attempts than the limit now allows',
    { ...WAITING, attemptCount: 7, lastStatus: 500 },
    {},
    '7 attempts were made, the last with status 500. The next attempt starts at 2026-01-31T12:05:00.000Z. Attempts left: 1.',
  ],
  [
    'waiting, with a disabled subscription',
    { ...WAITING, attemptCount: 2, lastStatus: 500 },
    DISABLED,
    '2 attempts were made, the last with status 500. There is no further attempt: the subscription is disabled.',
  ],

  [
    'delivered',
    { state: 'delivered', ...SETTLED, attemptCount: 1, lastStatus: 204, deliveredAt: EARLIER },
    {},
    'Delivered at 2026-01-31T11:55:00.000Z after one attempt with status 204.',
  ],
  [
    'delivered, with a disabled subscription',
    { state: 'delivered', ...SETTLED, attemptCount: 3, lastStatus: 200, deliveredAt: EARLIER },
    { ...DISABLED, ...DELETED },
    'Delivered at 2026-01-31T11:55:00.000Z after 3 attempts with status 200.',
  ],

  [
    'failed after its budget',
    { ...FAILED, attemptCount: 5, lastStatus: 500 },
    {},
    '5 attempts were made, the last with status 500. There is no automatic retry. Replay the delivery to try again.',
  ],
  [
    'failed after its second budget without a response',
    { ...FAILED, attemptCount: 10, budgetStart: 5, lastError: 'connection refused' },
    {},
    '10 attempts were made, the last with connection refused. There is no automatic retry. Replay the delivery to try again.',
  ],
  [
    'failed after its budget, with a disabled subscription',
    { ...FAILED, attemptCount: 5, lastStatus: 500 },
    FAILING,
    '5 attempts were made, the last with status 500. There is no automatic retry. Enable the subscription and replay the delivery to try again.',
  ],
  [
    'failed with 410',
    { ...FAILED, attemptCount: 1, lastStatus: 410 },
    GONE,
    'The receiver responded with 410 (gone). There is no automatic retry. Enable the subscription and replay the delivery to try again.',
  ],
  [
    'failed with 410, with the subscription enabled again',
    { ...FAILED, attemptCount: 1, lastStatus: 410 },
    {},
    'The receiver responded with 410 (gone). There is no automatic retry. Replay the delivery to try again.',
  ],
  [
    'ended before its first attempt',
    { ...FAILED, lastError: 'the subscription is disabled' },
    DISABLED,
    'Failed before the first attempt: the subscription is disabled. Enable the subscription and replay the delivery to try again.',
  ],
  [
    'ended between attempts, with the subscription enabled again',
    { ...FAILED, attemptCount: 2, lastStatus: 500, lastError: 'the subscription is disabled' },
    {},
    'Failed after 2 attempts: the subscription is disabled. Replay the delivery to try again.',
  ],
  [
    'failed with 410, replayed and ended before the next attempt',
    { ...FAILED, attemptCount: 1, budgetStart: 1, lastStatus: 410, lastError: 'the subscription is disabled' },
    DISABLED,
    'Failed after one attempt: the subscription is disabled. Enable the subscription and replay the delivery to try again.',
  ],
  [
    'ended with its deleted subscription',
    { ...FAILED, attemptCount: 1, lastStatus: 500, lastError: 'the subscription is deleted' },
    { ...DISABLED, ...DELETED },
    'Failed after one attempt: the subscription is deleted.',
  ],
])('explains a delivery %s', (_words, delivery, subscription, text) => {
  expect(explain({ ...FRESH, ...delivery }, { ...ENABLED, ...subscription }, IDLE)).toBe(text)
})

const FIRST = 'Waiting for a worker. No attempt was made yet.'
const TO_FAILING = { failingSince: EARLIER } as const

test.each<[string, DeliveryContext['inFlight'], Partial<ExplainedSubscription>, string]>([
  ['no limit', { toSubscription: 15, ofPartition: 31 }, {}, ''],
  [
    'the limit of its subscription',
    { toSubscription: 16, ofPartition: 32 },
    {},
    ' Its subscription has 16 deliveries in flight. The limit is 16.',
  ],
  [
    'the limit of a failing subscription',
    { toSubscription: 2, ofPartition: 2 },
    TO_FAILING,
    ' Its subscription has 2 deliveries in flight. The limit is 2 until one succeeds.',
  ],
  [
    'the limit of its tenant',
    { toSubscription: 3, ofPartition: 32 },
    {},
    ' The subscriptions of its tenant have 32 deliveries in flight. The limit is 32.',
  ],
  [
    'the limit of the host',
    { toSubscription: 3, ofPartition: 32 },
    { tenantId: null },
    ' The subscriptions of the host have 32 deliveries in flight. The limit is 32.',
  ],
])('explains a waiting delivery with deliveries in flight at %s', (_words, inFlight, subscription, text) => {
  const context = { ...IDLE, inFlight }
  const explained = (delivery: Partial<ExplainedDelivery>) =>
    explain({ ...FRESH, ...delivery }, { ...ENABLED, ...subscription }, context)
  expect(explained({})).toBe(`${FIRST}${text}`)
  const next = 'One attempt was made, the last with status 500. The next attempt starts'
  const retry = { ...WAITING, attemptCount: 1, lastStatus: 500 }
  expect(explained({ ...retry, dueAt: NOW })).toBe(`${next} as soon as a worker is free. Attempts left: 4.${text}`)
  expect(explained(retry)).toBe(`${next} at 2026-01-31T12:05:00.000Z. Attempts left: 4.`)
})
