import { z } from 'zod'

export const Options = z.strictObject({
  /** The first and its retries. */
  maxAttempts: z.int().min(1).max(20).default(5),
  /** Of one attempt, from looking up the name to the end of the answer. */
  timeoutMs: z.int().min(100).max(60_000).default(10_000),
  /** How long deliveries are kept at least. */
  retentionDays: z.int().min(1).max(3_650).default(30),
  /** Whether Tenantry's own events are dispatched, under their dotted names. */
  bridge: z.boolean().default(true),
  /** Requests that one process has on their way at once. */
  concurrency: z.int().min(1).max(10_000).default(128),
  /** Deliveries that one process holds at once; default eight times `concurrency`: what is dispatched here and finds no place is written twice. */
  claim: z.int().min(1).max(10_000).optional(),
  /** On their way to one subscription at once, over all processes. */
  perSubscription: z.int().min(1).max(10_000).default(16),
  /** On their way of one tenant at once, over all processes; default a quarter of `concurrency`. */
  perTenant: z.int().min(1).max(10_000).optional(),
})
export type WebhooksOptions = z.input<typeof Options>

export interface Options extends z.output<typeof Options> {
  readonly claim: number
  readonly perTenant: number
}

export const withDefaults = (options: z.output<typeof Options>): Options => ({
  ...options,
  claim: options.claim ?? options.concurrency * 8,
  perTenant: options.perTenant ?? Math.max(1, Math.ceil(options.concurrency / 4)),
})
