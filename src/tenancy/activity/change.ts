/** The names of a change, and whether a caller may read them. */
import { z } from 'zod'
import type { AnyOperation } from '../../kernel/api/operation.ts'
import { mayCallFor } from '../../kernel/api/permissions.ts'
import type { Grant } from '../../kernel/base/context.ts'

export const ActivityChange = z
  .object({
    id: z.uuid(),
    action: z.string().meta({ description: 'Name of the operation, as in the audit log', example: 'tenants.suspend' }),
    tenantId: z.string().nullable().meta({ description: 'Null for a change of no tenant' }),
    target: z.string().meta({ description: 'The changed object', example: 'tenant:acme' }),
    at: z.iso.datetime(),
  })
  .meta({ id: 'ActivityChange' })
export type ActivityChange = z.output<typeof ActivityChange>

export type MayRead = (grant: Grant | undefined, change: Pick<ActivityChange, 'action' | 'tenantId'>) => boolean

/**
 * A caller reads the changes of objects that it could also read (by `webhooks.get` or a list for `webhooks.update`), of the same tenant.
 * Changes of other kinds require every GET.
 *
 * @param operations all operations of the API
 */
export function readsOf(operations: readonly AnyOperation[]): MayRead {
  const reads = operations.filter(({ method, scope }) => method === 'GET' && !scope)
  const ofObjects = reads.filter(({ name }) => READS_OBJECTS.test(name))
  const byKind = Map.groupBy(ofObjects, ({ name }) => kindOf(name))
  return (grant, { action, tenantId }) => {
    if (!grant) return true
    const own = byKind.get(kindOf(action))
    if (own) return own.some((one) => mayCallFor(grant, one, tenantId ?? undefined))
    return reads.every((one) => mayCallFor(grant, one, tenantId ?? undefined))
  }
}

/** Others return numbers, such as `tenants.counts`. */
const READS_OBJECTS = /\.(get|list|listAll)$/

const kindOf = (name: string): string => name.split('.', 1)[0] ?? name
