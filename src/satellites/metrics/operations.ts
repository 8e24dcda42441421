import { z } from 'zod'
import { EXPORT_TYPES, exported, wantedFormat } from '../../kernel/api/export-format.ts'
import { Moment, Page, pageOf } from '../../kernel/api/page.ts'
import { number } from '../../kernel/base/format.ts'
import { DAY_MS } from '../../kernel/store/counters.ts'
import { TenantNotFound } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { MetricKey } from './key.ts'
import { Metric, MetricOfTenant } from './metric.ts'
import { operation } from './part.ts'
import type { MetricFilter } from './readings.ts'
import { MAX_DAYS, MetricSums } from './sums.ts'

const EXPORTS =
  'With `Accept: application/x-ndjson` or `text/csv` the response is an export: a stream of all items that match the filters, ' +
  'without paging; `limit` and `cursor` have no effect.'

const filters = {
  key: MetricKey.optional().meta({ description: 'Only this key', example: 'requests' }),
  from: Moment.optional().meta({ description: 'Days from the one that contains this time' }),
  to: Moment.optional().meta({ description: 'Exclusive: days that have started before' }),
}

/** Options of commands. */
const period = {
  from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; from the day that contains it' },
  to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; days that have started before' },
}

const isShort = ({ from, to = new Date() }: MetricFilter): boolean =>
  from === undefined || to.getTime() - from.getTime() <= MAX_DAYS * DAY_MS

export const operations = [
  operation({
    name: 'metrics.list',
    method: 'GET',
    path: '/tenants/{id}/metrics',
    summary: "List or export a tenant's metrics by day and key, the newest first",
    description:
      '`requests`, `errors` and `bytes` are of guarded routes; other keys are of the host. A key without counts on a day is ' +
      `absent. Today is included: counts of processes are visible within about a second. ${EXPORTS}`,
    params: z.object({ id: TenantId }),
    query: z.strictObject({ ...filters, ...Page.shape }),
    reply: pageOf(Metric),
    streams: EXPORT_TYPES,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:metrics:list',
      summary: "List a tenant's metrics by day and key, the newest first",
      arguments: { id: 'id of the tenant' },
      options: period,
    },
    handle: async (metrics, { params: { id }, query, headers }) => {
      const format = wantedFormat(headers)
      return format
        ? exported(format, `metrics-${id}`, await metrics.export(id, format, query))
        : metrics.list(id, query)
    },
  }),
  operation({
    name: 'metrics.listAll',
    method: 'GET',
    path: '/tenant-metrics',
    summary: 'List or export the metrics of all tenants by day and key, the newest first',
    description: `As of the last flush, which runs every five minutes. ${EXPORTS}`,
    query: z.strictObject({ tenantId: TenantId.optional(), ...filters, ...Page.shape }),
    reply: pageOf(MetricOfTenant),
    streams: EXPORT_TYPES,
    command: {
      name: 'metrics:list',
      summary: 'List the metrics of all tenants by day and key, the newest first; as of the last flush',
      options: { tenantId: { flags: '--tenant <id>', summary: 'only this tenant' }, ...period },
    },
    handle: async (metrics, { query, headers }) => {
      const format = wantedFormat(headers)
      return format ? exported(format, 'metrics', await metrics.exportAll(format, query)) : metrics.listAll(query)
    },
  }),
  operation({
    name: 'metrics.sums',
    method: 'GET',
    path: '/tenant-metrics/sums',
    summary: 'Sum a key by day, or list the tenants with the greatest sums',
    description:
      'As of the last flush, which runs every five minutes; sums over 10,000 tenants or more are up to a minute older. Default: the last 14 days.',
    query: z
      .strictObject({
        key: MetricKey.meta({ example: 'requests' }),
        by: z.enum(['day', 'tenant']).default('day'),
        tenantId: TenantId.optional().meta({ description: 'Only this tenant' }),
        top: Page.shape.limit.optional().meta({ description: 'Maximum number of tenants; default 10' }),
        from: filters.from,
        to: filters.to,
      })
      .refine(isShort, { path: ['from'], message: `must be at most ${MAX_DAYS} days before \`to\`` }),
    reply: MetricSums,
    command: {
      name: 'metrics:sums',
      summary: 'Sum a key by day, or list the tenants with the greatest sums; as of the last flush',
      arguments: { key: 'key of the metric' },
      options: {
        by: { flags: '--by <day|tenant>', summary: 'default day' },
        tenantId: { flags: '--tenant <id>', summary: 'only this tenant' },
        ...period,
      },
      rows: ({ data }) => data,
      message: ({ total }) => `total: ${number(total)}`,
    },
    handle: (metrics, { query }) => metrics.sums(query),
  }),
]
