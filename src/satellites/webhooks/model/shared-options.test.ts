import { expect, test } from 'vitest'
import { webhooks } from '../index.ts'

test('processes compare the options that they share, but not the limits of one process', () => {
  const { sharedOptions } = webhooks({ maxAttempts: 8, concurrency: 4, claim: 2 })
  expect(sharedOptions).toEqual({
    maxAttempts: '8',
    timeoutMs: '10000',
    retentionDays: '30',
    bridge: 'true',
    perSubscription: '16',
  })
})
