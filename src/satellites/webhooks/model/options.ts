import { z } from 'zod'

export const Options = z.strictObject({
  /** Maximum of attempts of a delivery, including the first; default 5. */
  maxAttempts: z.int().min(1).max(20).default(5),
  /** Timeout of one attempt in milliseconds, from name resolution to the end of the response; default 10,000. */
  timeoutMs: z.int().min(100).max(60_000).default(10_000),
  /** Minimum retention of deliveries in days; default 30. */
  retentionDays: z.int().min(1).max(3_650).default(30),
  /** Dispatches Tenantry's events under their dotted names; default true. */
  bridge: z.boolean().default(true),
  /** Maximum of concurrent requests of one process; default 128. */
  concurrency: z.int().min(1).max(10_000).default(128),
  /** Maximum of claimed deliveries of one process; default eight times `concurrency`. A dispatch beyond it is written twice. */
  claim: z.int().min(1).max(10_000).optional(),
  /** Maximum of deliveries in flight to one subscription, over all processes; default 16. */
  perSubscription: z.int().min(1).max(10_000).default(16),
  /** Maximum of deliveries in flight of one tenant, over all processes; default a quarter of `concurrency`. */
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
