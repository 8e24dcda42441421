/** Settlements as a delivery worker makes them. */
import type { Settlement } from '../queue/queue.ts'

/** Of a delivery whose receiver responded with 200, unless `changes` has something else. */
export const settlementOf = (delivery: Settlement['delivery'], changes: Partial<Settlement> = {}): Settlement => ({
  delivery,
  verdict: { state: 'delivered', delayMs: null, disables: null },
  status: 200,
  error: null,
  isBlamed: true,
  startedMs: Date.now(),
  durationMs: 1,
  address: '127.0.0.1',
  requestHeaders: '{}',
  responseHeaders: '{}',
  responseBody: '',
  ...changes,
})
