/** The context that a job of a host carries from the request that sent it, as `$tenantry` in the data of the job. */
import { z } from 'zod'
import { type Context, currentContext } from '../../kernel/base/context.ts'
import { parseTraceparent } from '../../kernel/base/trace-context.ts'

const ACTOR_TYPES = ['admin', 'cli', 'host', 'user', 'system', 'impersonator'] as const
const MAX_LABEL = 256

/** For logs and audit entries only: a longer text is cut, so that the job still runs. */
const label = z.string().transform((text) => text.slice(0, MAX_LABEL))

/** Data from a queue: other programs may have written it. */
export const Carried = z.object({
  /** Null: the job was sent without a tenant. */
  tenantId: z.string().min(1).nullable(),
  requestId: label.nullable(),
  /** It gives no rights. */
  actor: z.object({ type: z.enum(ACTOR_TYPES), id: label, name: label }),
  traceparent: z.unknown().optional().transform(parseTraceparent),
})
export type Carried = z.infer<typeof Carried>

/** The data of a job with the context of its sender. */
export type CarriedData<Data extends object> = Data & { readonly $tenantry: Carried }

/** Returns the data with the context of the caller. Replaces a `$tenantry` in the data. */
export function carry<Data extends object>(data: Data): CarriedData<Data> {
  const { tenantId, requestId, actor, traceparent } = currentContext()
  return { ...data, $tenantry: { tenantId: tenantId || null, requestId, actor, traceparent } }
}

/** The context in the data of a job: undefined if the data has none, null if it is invalid. */
export function carriedBy(data: unknown): Carried | undefined | null {
  const carried = (data as { $tenantry?: unknown } | null | undefined)?.$tenantry
  return carried === undefined ? undefined : (Carried.safeParse(carried).data ?? null)
}

/** The context in which a job begins: that of its sender, without the tenant and the address. */
export const contextOf = ({ requestId, actor, traceparent }: Carried): Context => ({
  requestId,
  actor,
  ip: null,
  traceparent,
})
