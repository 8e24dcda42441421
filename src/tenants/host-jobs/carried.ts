/** The context that a job of a host carries from the request that sent it, as `$tenantry` in the data of the job. */
import { z } from 'zod'
import { type Context, currentContext } from '../../kernel/base/context.ts'

const ACTOR_TYPES = ['admin', 'cli', 'host', 'user', 'system', 'impersonator'] as const

/** Data from a queue: other programs may have written it. */
export const Carried = z.object({
  /** Null: the job was sent without a tenant. */
  tenantId: z.string().nullable(),
  requestId: z.string().nullable(),
  /** For logs and audit entries only. It gives no rights. */
  actor: z.object({ type: z.enum(ACTOR_TYPES), id: z.string(), name: z.string() }),
  traceparent: z.string().optional(),
})
export type Carried = z.infer<typeof Carried>

/** The data of a job with the context of its sender. */
export type CarriedData<Data extends object> = Data & { readonly $tenantry: Carried }

/** Returns the data with the context of the caller. Replaces a `$tenantry` in the data. */
export function carry<Data extends object>(data: Data): CarriedData<Data> {
  const { tenantId, requestId, actor, traceparent } = currentContext()
  return { ...data, $tenantry: { tenantId: tenantId || null, requestId, actor, traceparent } }
}

/** The context in the data of a job; undefined if it is missing or invalid. */
export function carriedBy(data: unknown): Carried | undefined {
  return Carried.safeParse((data as { $tenantry?: unknown } | null | undefined)?.$tenantry).data
}

/** The context in which a job begins: that of its sender, without the tenant and the address. */
export const contextOf = ({ requestId, actor, traceparent }: Carried): Context => ({
  requestId,
  actor,
  ip: null,
  traceparent,
})
