import { z } from 'zod'
import { type Input, Reply } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { part } from '../../kernel/part.ts'
import { COUNTER_NAME } from '../../kernel/store/counters.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { Decision } from './decision.ts'
import { QuotaExceeded, QuotaNotFound, RATE_LIMIT } from './errors.ts'
import type { Quotas } from './quotas.ts'
import { DEFAULT_SHARE, QuotaUse } from './ranking.ts'
import { RECORDED_FROM } from './usage-records.ts'

const { operation } = part<Quotas>()

const QuotaName = z
  .string()
  .regex(COUNTER_NAME, `must match ${COUNTER_NAME.source}`)
  .meta({ description: 'Name in the limits of the plans' })
const Amount = z.int().min(0).meta({ description: 'Default 1; 0 counts nothing and returns the usage' })

const NO_SHARE = `must be a number of ${RECORDED_FROM} or more`

const byId = z.object({ id: TenantId })
const byQuota = z.object({ id: TenantId, quota: QuotaName })
const Usage = z.strictObject({ quota: QuotaName, value: z.number().min(0) })
const OneAmount = z.strictObject({ amount: Amount.optional() })

export const QuotaSnapshot = z
  .object({
    plan: z.string(),
    limits: z.record(z.string(), z.number()).meta({ description: 'Limits of the plan; an absent quota is unlimited' }),
    usage: z.record(z.string(), z.number()).meta({
      description: "By quota: today's counter if it exists, otherwise the gauge, otherwise 0",
    }),
    gauges: z.array(z.string()).meta({ description: 'Quotas whose usage is a gauge' }),
  })
  .meta({ id: 'QuotaSnapshot' })

const ofTenant = { id: 'id of the tenant' }
const ofQuota = { ...ofTenant, quota: {} }
const rowsOf = ({ limits, usage }: z.output<typeof QuotaSnapshot>) =>
  Object.entries(usage).map(([quota, used]) => {
    const limit = limits[quota]
    return { quota, used, limit: limit ?? 'unlimited', left: limit === undefined ? '' : Math.max(0, limit - used) }
  })

const digits = z
  .string()
  .regex(/^\d{1,16}$/, 'must be a whole number of 0 or more')
  .transform(Number)
  .pipe(Amount)

const one =
  (mode: 'consume' | 'track') =>
  async (quotas: Quotas, { params, body }: Input<z.output<typeof byQuota>, object, z.output<typeof OneAmount>>) => {
    const { decisions, headers } = await quotas.apply(params.id, mode, [{ quota: params.quota, ...body }])
    const [decision] = decisions
    if (!decision) throw new Error('a request needs at least one quota')
    const { quota: _, ...reply } = decision
    return new Reply<Decision>(200, reply, headers)
  }

export const operations = [
  operation({
    name: 'quotas.get',
    method: 'GET',
    path: '/tenants/{id}/quotas',
    summary: "Read a tenant's plan, limits and usage",
    params: byId,
    reply: QuotaSnapshot,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:quotas:show',
      summary: "Show a tenant's limits and usage",
      arguments: ofTenant,
      rows: rowsOf,
      message: ({ plan }) => `plan: ${plan}`,
    },
    handle: (quotas, { params }) => quotas.snapshot(params.id),
  }),
  operation({
    name: 'quotas.top',
    method: 'GET',
    path: '/tenant-quotas',
    summary: 'List tenants by the share of a limit that they have used, the greatest first',
    description:
      'As of the last recorded change: usage is recorded from half of the smallest limit of all plans on, within about a second, when it ' +
      'has changed by a hundredth of the limit. A limit of 0 has no share. `quotas.get` has the exact usage of one tenant.',
    query: z.strictObject({
      quota: QuotaName.optional(),
      above: z
        .string()
        .regex(/^\d{1,9}(\.\d{1,9})?$/, NO_SHARE)
        .transform(Number)
        .pipe(z.number().min(RECORDED_FROM, NO_SHARE))
        .optional()
        .meta({ description: `Smallest share, ${RECORDED_FROM} or more; default ${DEFAULT_SHARE}`, example: '0.8' }),
      ...Page.shape,
    }),
    reply: pageOf(QuotaUse),
    command: {
      name: 'quotas:top',
      options: {
        above: { flags: '--above <share>', summary: `smallest share of the limit; default ${DEFAULT_SHARE}` },
      },
      rows: ({ data }) =>
        data.map(({ tenantId, plan, quota, usage, limit, share }) => {
          return { tenantId, plan, quota, usage, limit, share: `${Math.round(share * 100)} %` }
        }),
    },
    handle: (quotas, { query }) => quotas.top(query),
  }),
  operation({
    name: 'quotas.setUsage',
    changesOutside: true,
    method: 'PUT',
    path: '/tenants/{id}/quotas/usage',
    summary: 'Set a gauge, such as seats or gigabytes; it keeps its value until it is set again',
    params: byId,
    body: Usage,
    reply: QuotaSnapshot,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:quotas:set',
      arguments: { ...ofTenant, quota: {}, value: 'a number of 0 or more' },
      rows: rowsOf,
    },
    handle: async (quotas, { params, body }) => {
      await quotas.correct(params.id, body.quota, body.value)
      return quotas.snapshot(params.id)
    },
  }),
  operation({
    name: 'quotas.reset',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/quotas/reset',
    summary: "Reset today's counter and the gauge of one quota, or of all",
    params: byId,
    body: z.strictObject({ quota: QuotaName.optional() }),
    bodyOptional: true,
    reply: QuotaSnapshot,
    errors: [TenantNotFound, TenantState, QuotaNotFound],
    command: {
      name: 'tenant:quotas:reset',
      summary: 'Reset the usage of a tenant, of one quota or of all',
      arguments: { ...ofTenant, quota: {} },
      question: ({ params: { id }, body: { quota } }) =>
        `Reset ${quota === undefined ? 'all usage' : `the usage of "${quota}"`} of tenant "${id}"?`,
      rows: rowsOf,
    },
    handle: async (quotas, { params, body }) => {
      await quotas.reset(params.id, body.quota)
      return quotas.snapshot(params.id)
    },
  }),
  operation({
    name: 'quotas.consumeAll',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/quotas/consume',
    summary: 'Count several quotas: all of them, or none',
    params: byId,
    body: z.strictObject({
      quotas: z
        .array(z.strictObject({ quota: QuotaName, amount: Amount.optional() }))
        .min(1)
        .max(32)
        .meta({ description: 'Distinct quotas' }),
    }),
    reply: z.object({ data: z.array(Decision.extend({ quota: z.string() }).meta({ id: 'QuotaDecisionOfOne' })) }),
    scope: 'runtime',
    errors: [TenantNotFound, QuotaExceeded],
    replyHeaders: RATE_LIMIT,
    handle: async (quotas, { params, body }) => {
      const { decisions, headers } = await quotas.apply(params.id, 'consume', body.quotas)
      return new Reply(200, { data: [...decisions] }, headers)
    },
  }),
  operation({
    name: 'quotas.consume',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/quotas/{quota}/consume',
    summary: "Count an amount below the limit of the tenant's plan, otherwise 429",
    description: 'Check and count are one step: concurrent callers never exceed the limit.',
    params: byQuota,
    body: OneAmount,
    bodyOptional: true,
    reply: Decision,
    scope: 'runtime',
    errors: [TenantNotFound, QuotaExceeded],
    replyHeaders: RATE_LIMIT,
    command: {
      name: 'tenant:quotas:consume',
      summary: "Count an amount below the limit of the tenant's plan",
      arguments: ofQuota,
    },
    handle: one('consume'),
  }),
  operation({
    name: 'quotas.track',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/quotas/{quota}/track',
    summary: 'Count without a limit',
    params: byQuota,
    body: OneAmount,
    bodyOptional: true,
    reply: Decision,
    scope: 'runtime',
    errors: [TenantNotFound],
    replyHeaders: RATE_LIMIT,
    command: { name: 'tenant:quotas:track', summary: 'Count an amount without a limit', arguments: ofQuota },
    handle: one('track'),
  }),
  operation({
    name: 'quotas.check',
    method: 'GET',
    path: '/tenants/{id}/quotas/{quota}/check',
    summary: 'Check whether an amount would fit; counts nothing',
    description: 'For gauges: check, then set. It reserves nothing; daily counters are consumed.',
    params: byQuota,
    query: z.strictObject({ amount: digits.optional() }),
    reply: Decision,
    scope: 'runtime',
    errors: [TenantNotFound],
    command: {
      name: 'tenant:quotas:check',
      arguments: ofQuota,
      options: { amount: { flags: '--amount <count>', summary: 'default 1' } },
    },
    handle: (quotas, { params, query }) => quotas.check(params.id, params.quota, query.amount),
  }),
]
