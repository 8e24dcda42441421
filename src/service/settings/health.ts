/** Schema of `health` in the configuration file: critical checks, and the drain before a stop. */
import { z } from 'zod'

/** Load balancers probe every few seconds. */
const PRODUCTION_DRAIN_SECONDS = 5

export const Health = z.strictObject({
  critical: z.array(z.string()).default([]).describe('Checks whose failure makes `/readyz` respond with 503'),
  drainSeconds: z
    .number()
    .min(0)
    .max(300)
    .optional()
    .describe('Seconds of 503 on `/readyz` before a stop closes the port. Default: 0, in production 5'),
})

export interface HealthSettings {
  readonly critical: readonly string[]
  readonly drainSeconds: number
}

export const healthOf = (
  { critical, drainSeconds }: z.output<typeof Health>,
  isProduction: boolean,
): HealthSettings => ({
  critical,
  drainSeconds: drainSeconds ?? (isProduction ? PRODUCTION_DRAIN_SECONDS : 0),
})
