import { z } from 'zod'
import { COUNTER_NAME } from '../../kernel/store/counters.ts'

export const Options = z.strictObject({
  headers: z.boolean().optional(),
  unlimited: z
    .array(z.string().regex(COUNTER_NAME, `must match ${COUNTER_NAME.source}`))
    .readonly()
    .optional(),
})

export interface QuotasOptions<Quota extends string = string> {
  /** Whether responses have `RateLimit-Policy` and `RateLimit`. Default: true. */
  readonly headers?: boolean | undefined
  /** Quotas without a limit in any plan. If given, all other names that no plan limits are rejected. */
  readonly unlimited?: readonly Quota[] | undefined
}
