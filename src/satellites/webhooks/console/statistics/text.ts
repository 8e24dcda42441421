/** Texts of the statistics of deliveries. */
import { formatNumber } from '../../../../console/components/base/text.ts'

export const seconds = (ms: number): string =>
  new Intl.NumberFormat('en', { maximumFractionDigits: 1 }).format(ms / 1_000)
export const duration = (ms: number): string => (ms < 1_000 ? `${formatNumber(ms)} ms` : `${seconds(ms)} s`)

export const text = {
  stats: 'Outcome by time of dispatch',
  last24: 'Last 24 hours',
  deliveriesOfDay: 'Deliveries of the last 24 hours',
  deliveriesOf: (from: string, to: string) => `Deliveries, ${from} to ${to}`,
  now: 'now',
  estimated: 'Estimated from a sample',
  outcomes: { delivered: 'Delivered', failed: 'Failed', waiting: 'Waiting' },
  summary: (delivered: number, failed: number, waiting: number) =>
    `${formatNumber(delivered)} delivered, ${formatNumber(failed)} failed, ${formatNumber(waiting)} waiting`,
  responseTimes: 'Response times of receivers',
  responseTimesSummary: (slowest: number) => `The 95th percentile is at most ${duration(slowest)}.`,
  p50: 'p50',
  p95: 'p95',
  atMost: (ms: number) => `≤ ${duration(ms)}`,
}
