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
  url: 'https://receiver.example/',
  isFailing: false,
  secret: '',
  previousSecret: null,
  previousUntil: null,
  generation: 0,
})

test('what is set apart and has no room is taken out, but for the oldest; its places are taken until it is removed', () => {
  const inFlight = new InFlight({ claim: 8, concurrency: 4 })
  for (let n = 0; n < 6; n++) inFlight.add({ delivery: delivery(`slow-${n}`, 'slow'), requestedAt: 0 })
  inFlight.add({ delivery: delivery('good', 'good'), requestedAt: 0 })
  const excess = inFlight.setApart('slow')
  expect(excess.map(({ id }) => id)).toEqual(['slow-2', 'slow-3', 'slow-4', 'slow-5'])
  expect([inFlight.room, inFlight.roomForFailing]).toEqual([1, 0])
  for (const each of excess) inFlight.remove(each)
  expect([inFlight.room, inFlight.isWorthFilling, inFlight.setApart('slow')]).toEqual([5, true, []])
  expect(inFlight.next()?.delivery.id).toBe('good')
  expect(inFlight.next()?.delivery.id).toBe('slow-0')
})
