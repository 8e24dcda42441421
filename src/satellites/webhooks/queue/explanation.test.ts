/** What whoever asks is told of a delivery, for each way it may stand. */
import { expect, test } from 'vitest'
import { type Circumstances, type ExplainedDelivery, type ExplainedSubscription, explain } from './explanation.ts'

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
const IDLE: Circumstances = {
  now: NOW,
  maxAttempts: 5,
  perSubscription: 16,
  perTenant: 32,
  onTheirWay: { toSubscription: 0, ofPartition: 0 },
}
const DISABLED = { enabled: false } as const
const GONE = { enabled: false, disabledReason: 'gone' } as const
const FAILING = { enabled: false, disabledReason: 'failing' } as const
const DELETED = { deletedAt: EARLIER } as const

test.each<[string, Partial<ExplainedDelivery>, Partial<ExplainedSubscription>, string]>([
  ['that is new', {}, {}, 'Waiting for a worker to send it for the first time.'],
  [
    'that is replayed',
    { attemptCount: 5, budgetStart: 5, lastStatus: 500 },
    {},
    'Replayed after 5 attempts; waiting for a worker to send it again.',
  ],
  [
    'that is replayed after one attempt',
    { attemptCount: 1, budgetStart: 1, lastStatus: 200 },
    {},
    'Replayed after one attempt; waiting for a worker to send it again.',
  ],
  [
    'that was broken off',
    { attemptCount: 1, budgetStart: 1, lastError: 'aborted' },
    {},
    'Attempt 1 was broken off when its worker stopped; waiting for a worker to send it again.',
  ],
  ['whose subscription is disabled', {}, DISABLED, 'Not sent: the subscription is disabled. It will end as failed.'],
  [
    'whose receiver is gone',
    {},
    GONE,
    'Not sent: the subscription was disabled when its receiver answered 410. It will end as failed.',
  ],
  [
    'whose receiver fails',
    {},
    FAILING,
    'Not sent: the subscription was disabled after 5 days of nothing but failures. It will end as failed.',
  ],
  ['whose subscription is deleted', {}, DELETED, 'Not sent: the subscription is deleted. It will end as failed.'],

  [
    'on its way',
    { state: 'delivering', isReady: false, dueAt: LATER },
    {},
    'A worker has it: attempt 1 is on its way, or begins when the worker has room for it.',
  ],
  [
    'on its way for the third time',
    { state: 'delivering', isReady: false, dueAt: LATER, attemptCount: 2 },
    {},
    'A worker has it: attempt 3 is on its way, or begins when the worker has room for it.',
  ],
  [
    'on its way, its lease over',
    { state: 'delivering', isReady: false, dueAt: NOW },
    {},
    'The worker that was sending it is gone; another will send it again.',
  ],
  [
    'on its way, its lease over and seen so',
    { state: 'delivering', isReady: true, dueAt: EARLIER },
    {},
    'The worker that was sending it is gone; another will send it again.',
  ],

  [
    'that waits after an answer',
    { ...WAITING, attemptCount: 1, lastStatus: 503 },
    {},
    'One attempt was made, the last with status 503. The next attempt is made at 2026-01-31T12:05:00.000Z; 4 are left.',
  ],
  [
    'that waits for its last attempt, without an answer',
    { ...WAITING, attemptCount: 4, lastError: 'timeout' },
    {},
    '4 attempts were made, the last with timeout. The next attempt is made at 2026-01-31T12:05:00.000Z; 1 is left.',
  ],
  [
    'that waits, replayed',
    { ...WAITING, attemptCount: 7, budgetStart: 5, lastStatus: 404 },
    {},
    '7 attempts were made, the last with status 404. The next attempt is made at 2026-01-31T12:05:00.000Z; 3 are left.',
  ],
  [
    'that is due',
    { ...WAITING, dueAt: NOW, attemptCount: 1, lastStatus: 302 },
    {},
    'One attempt was made, the last with status 302. The next attempt is made as soon as a worker is free; 4 are left.',
  ],
  [
    'that is due and seen so',
    { ...WAITING, isReady: true, attemptCount: 1, lastError: null },
    {},
    'One attempt was made, the last with no answer. The next attempt is made as soon as a worker is free; 4 are left.',
  ],
  [
    'that waits after a retry was broken off',
    { ...WAITING, isReady: true, attemptCount: 2, budgetStart: 1, lastStatus: 500, lastError: 'aborted' },
    {},
    'Attempt 2 was broken off when its worker stopped. The next attempt is made as soon as a worker is free; 4 are left.',
  ],
  [
    'that waits after an answer that broke off',
    { ...WAITING, attemptCount: 1, lastStatus: 200, lastError: 'timeout' },
    {},
    'One attempt was made, the last with status 200, timeout. The next attempt is made at 2026-01-31T12:05:00.000Z; 4 are left.',
  ],
  [
    'that was tried once, and cannot be signed',
    { ...WAITING, attemptCount: 1, lastError: 'its secret cannot be opened' },
    {},
    'Not sent: its secret cannot be opened. The next attempt is made at 2026-01-31T12:05:00.000Z; 4 are left.',
  ],
  [
    'that waits, with fewer attempts allowed by now than it has used',
    { ...WAITING, attemptCount: 7, lastStatus: 500 },
    {},
    '7 attempts were made, the last with status 500. The next attempt is made at 2026-01-31T12:05:00.000Z; 1 is left.',
  ],
  [
    'that waits, its subscription disabled',
    { ...WAITING, attemptCount: 2, lastStatus: 500 },
    DISABLED,
    '2 attempts were made, the last with status 500. It will not be tried again: the subscription is disabled.',
  ],

  [
    'that is delivered',
    { state: 'delivered', ...SETTLED, attemptCount: 1, lastStatus: 204, deliveredAt: EARLIER },
    {},
    'Delivered at 2026-01-31T11:55:00.000Z after one attempt; the answer was 204.',
  ],
  [
    'that is delivered, whatever became of its subscription',
    { state: 'delivered', ...SETTLED, attemptCount: 3, lastStatus: 200, deliveredAt: EARLIER },
    { ...DISABLED, ...DELETED },
    'Delivered at 2026-01-31T11:55:00.000Z after 3 attempts; the answer was 200.',
  ],

  [
    'that has used its budget',
    { ...FAILED, attemptCount: 5, lastStatus: 500 },
    {},
    '5 attempts were made, the last with status 500; nothing more is sent by itself. Replay it to try again.',
  ],
  [
    'that has used its second budget, without an answer',
    { ...FAILED, attemptCount: 10, budgetStart: 5, lastError: 'connection refused' },
    {},
    '10 attempts were made, the last with connection refused; nothing more is sent by itself. Replay it to try again.',
  ],
  [
    'that has used its budget, its subscription disabled',
    { ...FAILED, attemptCount: 5, lastStatus: 500 },
    FAILING,
    '5 attempts were made, the last with status 500; nothing more is sent by itself. Enable the subscription and replay it to try again.',
  ],
  [
    'whose receiver answered 410',
    { ...FAILED, attemptCount: 1, lastStatus: 410 },
    GONE,
    'The receiver answered 410, it wants no more; nothing is sent by itself. Enable the subscription and replay it to try again.',
  ],
  [
    'whose receiver answered 410 and is enabled again',
    { ...FAILED, attemptCount: 1, lastStatus: 410 },
    {},
    'The receiver answered 410, it wants no more; nothing is sent by itself. Replay it to try again.',
  ],
  [
    'that was ended before its first attempt',
    { ...FAILED, lastError: 'the subscription is disabled' },
    DISABLED,
    'Given up before the first attempt: the subscription is disabled. Enable the subscription and replay it to try again.',
  ],
  [
    'that was ended between attempts, its subscription enabled again',
    { ...FAILED, attemptCount: 2, lastStatus: 500, lastError: 'the subscription is disabled' },
    {},
    'Given up after 2 attempts: the subscription is disabled. Replay it to try again.',
  ],
  [
    'that was answered 410, replayed, and ended before it was sent',
    { ...FAILED, attemptCount: 1, budgetStart: 1, lastStatus: 410, lastError: 'the subscription is disabled' },
    DISABLED,
    'Given up after one attempt: the subscription is disabled. Enable the subscription and replay it to try again.',
  ],
  [
    'that was ended with its subscription',
    { ...FAILED, attemptCount: 1, lastStatus: 500, lastError: 'the subscription is deleted' },
    { ...DISABLED, ...DELETED },
    'Given up after one attempt: the subscription is deleted.',
  ],
])('a delivery %s', (_words, delivery, subscription, text) => {
  expect(explain({ ...FRESH, ...delivery }, { ...ENABLED, ...subscription }, IDLE)).toBe(text)
})

const FIRST = 'Waiting for a worker to send it for the first time.'
const TO_FAILING = { failingSince: EARLIER } as const

test.each<[string, Circumstances['onTheirWay'], Partial<ExplainedSubscription>, string]>([
  ['less than all bounds', { toSubscription: 15, ofPartition: 31 }, {}, ''],
  [
    'as much as its subscription may',
    { toSubscription: 16, ofPartition: 32 },
    {},
    ' Its subscription has 16 on their way, and may have 16 at once.',
  ],
  [
    'as much as a subscription may that fails',
    { toSubscription: 2, ofPartition: 2 },
    TO_FAILING,
    ' Its subscription has 2 on their way, and may have 2 at once, until one succeeds.',
  ],
  [
    'as much as its tenant may',
    { toSubscription: 3, ofPartition: 32 },
    {},
    ' Subscriptions of its tenant have 32 on their way, and may have 32 at once.',
  ],
  [
    'as much as the host may',
    { toSubscription: 3, ofPartition: 32 },
    { tenantId: null },
    ' Subscriptions of the host have 32 on their way, and may have 32 at once.',
  ],
])('a delivery that waits while on its way is %s', (_words, onTheirWay, subscription, text) => {
  const circumstances = { ...IDLE, onTheirWay }
  const explained = (delivery: Partial<ExplainedDelivery>) =>
    explain({ ...FRESH, ...delivery }, { ...ENABLED, ...subscription }, circumstances)
  expect(explained({})).toBe(`${FIRST}${text}`)
  const next = 'One attempt was made, the last with status 500. The next attempt is made'
  const retry = { ...WAITING, attemptCount: 1, lastStatus: 500 }
  expect(explained({ ...retry, dueAt: NOW })).toBe(`${next} as soon as a worker is free; 4 are left.${text}`)
  expect(explained(retry)).toBe(`${next} at 2026-01-31T12:05:00.000Z; 4 are left.`)
})
