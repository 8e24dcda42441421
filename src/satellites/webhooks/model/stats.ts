/** Statistics of deliveries by the time of their dispatch: query, steps and reply. */
import { z } from 'zod'
import { MomentOrDate } from '../../../kernel/api/page.ts'
import { invalid } from '../../../kernel/base/errors.ts'
import { TenantId } from '../../../tenants/tenant/tenant.ts'
import { isOrdered, ORDER } from './queries.ts'

const HOUR_MS = 3_600_000
const STEP_MS = { hour: HOUR_MS, day: 24 * HOUR_MS } as const
const DEFAULT_STEPS = { hour: 24, day: 30 } as const
const MAX_STEPS = 750

export const StatsQuery = z
  .strictObject({
    tenantId: TenantId.optional().meta({ description: 'Only deliveries to subscriptions of this tenant' }),
    webhookId: z
      .uuid()
      .optional()
      .meta({ description: 'Only deliveries to this subscription, of a tenant or of the host' }),
    from: MomentOrDate.optional().meta({
      description: 'In the first step; default: 24 hours, or 30 days, before `to`',
    }),
    to: MomentOrDate.optional().meta({ description: 'End of the last step, or in it; default: now' }),
    step: z
      .enum(['hour', 'day'])
      .default('hour')
      .meta({ description: 'Length of a step, which starts at a full hour or day in UTC' }),
  })
  .refine(isOrdered, ORDER)
export type StatsRequest = z.output<typeof StatsQuery>

const durationMs = z.int().nullable()

export const Stats = z
  .object({
    step: z.enum(['hour', 'day']),
    isEstimated: z
      .boolean()
      .describe('Whether the numbers are estimates from a sample, because there are very many deliveries'),
    data: z.array(
      z.object({
        at: z.iso.datetime().describe('Start of the step'),
        delivered: z.int(),
        failed: z.int(),
        waiting: z.int().describe('Neither delivered nor failed yet'),
        p50Ms: durationMs.describe('Median duration of the last attempts in milliseconds; null without attempts'),
        p95Ms: durationMs.describe('95th percentile of the same durations'),
      }),
    ),
  })
  .meta({ id: 'WebhookStats' })
export type Stats = z.output<typeof Stats>

/** Starts of the steps that contain the period, and the end of the last one. @throws `E_INVALID_REQUEST` for too many */
export function stepsOf({ from, to, step }: Pick<StatsRequest, 'from' | 'to' | 'step'>, now: Date): number[] {
  const stepMs = STEP_MS[step]
  const end = Math.ceil((to ?? new Date(now.getTime() + 1)).getTime() / stepMs)
  const first = from ? Math.floor(from.getTime() / stepMs) : end - DEFAULT_STEPS[step]
  if (first >= end) throw invalid([{ path: 'from', message: ORDER.error }])
  if (end - first > MAX_STEPS)
    throw invalid([{ path: 'from', message: `must be at most ${MAX_STEPS} steps before \`to\`` }])
  return Array.from({ length: end - first + 1 }, (_, index) => (first + index) * stepMs)
}
