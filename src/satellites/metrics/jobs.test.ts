import { expect, test } from 'vitest'
import { queueOptions } from '../../drivers/jobs/queue-options.ts'
import { FlushMetrics } from './jobs.ts'

test('the retries of FlushMetrics outlast an outage of the store of five minutes', () => {
  const { retryLimit, retryDelay, retryDelayMax } = queueOptions(FlushMetrics)
  // The queue waits for at least half of each doubled delay.
  const delays = Array.from({ length: retryLimit }, (_, n) => Math.min(retryDelayMax, (retryDelay * 2 ** n) / 2))
  expect(delays.reduce((sum, delay) => sum + delay, 0)).toBeGreaterThan(300)
})
