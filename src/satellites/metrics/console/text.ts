/** Texts of the screens of usage. */
import { counted, formatBytes, formatNumber } from '../../../console/components/base/text.ts'

const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' })
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** The key of the guard whose values are bytes. */
export const BYTES = 'bytes'

const value = (key: string, amount: number): string => (key === BYTES ? formatBytes(amount) : formatNumber(amount))
const dayText = (period: string): string => day.format(new Date(period))

export const text = {
  usage: 'Usage',
  key: 'Metric',
  period: 'Period',
  days: (count: number) => counted(count, 'day'),
  value,
  scale: (key: string, amount: number) => (key === BYTES ? formatBytes(amount) : compact.format(amount)),
  day: dayText,
  caption: (key: string) => `${key} by day (UTC)`,
  inDays: (key: string, days: number) => `${key} in ${counted(days, 'day')}`,
  total: (key: string, total: number) => `${value(key, total)} in total`,
  summary: (key: string, total: number, days: number, greatest: { period: string; value: number } | undefined) =>
    `${key}: ${value(key, total)} in ${counted(days, 'day')}.${greatest ? ` The greatest day is ${dayText(greatest.period)} with ${value(key, greatest.value)}.` : ''}`,
  asOf: 'Counts are written every five minutes.',
  columns: { day: 'Day', key: 'Metric', value: 'Value', tenant: 'Tenant', share: 'Share' },
  topTenants: 'Tenants with the greatest use',
  shareOf: (part: number, total: number) =>
    new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 }).format(total > 0 ? part / total : 0),
  byDay: 'By day and metric',
  empty: 'No usage yet',
  emptyText: 'Requests, errors and bytes of guarded routes, and the counters of the host, appear here by day.',
  emptyPeriod: 'No usage in this period',
  longer: 'Show 90 days',
}
