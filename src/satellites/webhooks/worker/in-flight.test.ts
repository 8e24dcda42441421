import { expect, test } from 'vitest'
import type { Claimed } from '../queue/queue.ts'
import { InFlight } from './in-flight.ts'

const delivery = (id: string, webhookId: string): Claimed => ({
  id,
  webhookId,
  claim: 'a-claim',
  tenantId: 'acme',
  partitionKey: 'acme',
  event: 'order.paid',
  attemptCount: 0,
  budgetStart: 0,
  createdAt: new Date(0),
  body: '{}',
  traceparent: null,
  url: 'https://receiver.example/',
  isFailing: false,
  secret: '',
  previousSecret: null,
  previousUntil: null,
  generation: 0,
  envelope: false,
})

const receivedIn = (durationMs: number) => ({ error: null, durationMs })
const ids = (deliveries: readonly Claimed[]) => deliveries.map(({ id }) => id)

test('noteExchange of a slow receiver takes out its newest deliveries; they keep their places until they are removed', () => {
  const inFlight = new InFlight({ claim: 8, concurrency: 4, slowMs: 1_000 })
  inFlight.add([...Array.from({ length: 6 }, (_, n) => delivery(`slow-${n}`, 'slow')), delivery('good', 'good')], 1)
  const excess = inFlight.noteExchange('slow', receivedIn(1_001))
  expect(ids(excess)).toEqual(['slow-2', 'slow-3', 'slow-4', 'slow-5'])
  expect([inFlight.room, inFlight.roomForFailing]).toEqual([1, 0])
  for (const each of excess) inFlight.remove(each)
  expect([inFlight.room, inFlight.hasRoomForClaim]).toEqual([5, true])
  expect(inFlight.noteExchange('slow', receivedIn(1_001))).toEqual([])
  expect(inFlight.next()?.delivery.id).toBe('good')
  expect(inFlight.next()?.delivery.id).toBe('slow-0')
})

test('noteChange takes out the deliveries of the subscription that were requested before, also those added later', () => {
  const inFlight = new InFlight({ claim: 8, concurrency: 4, slowMs: 1_000 })
  const before = performance.now()
  expect(inFlight.add([delivery('first', 'changed'), delivery('other', 'unchanged')], before)).toEqual([])
  expect(ids(inFlight.noteChange('changed'))).toEqual(['first'])
  expect(ids(inFlight.add([delivery('second', 'changed'), delivery('third', 'unchanged')], before))).toEqual(['second'])
  expect(inFlight.add([delivery('fourth', 'changed')], performance.now() + 1)).toEqual([])
  expect(ids(inFlight.noteChange(undefined))).toEqual(['other', 'third'])
})
