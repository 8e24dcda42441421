import { expect, test } from 'vitest'
import type { Claimed } from '../queue/queue.ts'
import { Hold } from './in-flight.ts'

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
  const hold = new Hold({ claim: 8, concurrency: 4 })
  for (let n = 0; n < 6; n++) hold.add({ delivery: delivery(`slow-${n}`, 'slow'), requestedAt: 0 })
  hold.add({ delivery: delivery('good', 'good'), requestedAt: 0 })
  const excess = hold.setApart('slow')
  expect(excess.map(({ id }) => id)).toEqual(['slow-2', 'slow-3', 'slow-4', 'slow-5'])
  expect([hold.room, hold.roomForFailing]).toEqual([1, 0])
  for (const each of excess) hold.remove(each)
  expect([hold.room, hold.isWorthFilling, hold.setApart('slow')]).toEqual([5, true, []])
  expect(hold.next()?.delivery.id).toBe('good')
  expect(hold.next()?.delivery.id).toBe('slow-0')
})
