/** Settlements of a delivery worker. */
import type { Settlement } from '../queue/queue.ts'

/** Settlement of a response with status 200, with the given changes. */
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
