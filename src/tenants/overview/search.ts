/** The search of an operator over the objects of all parts: ids first, then names, then values. */
import { z } from 'zod'
import type { Kernel } from '../../kernel/kernel.ts'
import { COMPARED } from '../../kernel/shares/search.ts'
import { failedOf, isReadable } from '../../kernel/shares/shares.ts'

const MAX_RESULTS = 20

export const FoundObject = z
  .object({
    kind: z.string().meta({ description: 'Kind of the object', example: 'delivery' }),
    id: z.string(),
    tenantId: z.string().nullable().meta({ description: 'Null for an object of no tenant' }),
    title: z.string(),
    matched: z.string().meta({ description: 'Member that has the term', example: 'metadata.crmId' }),
    operation: z.string().meta({ description: 'Operation that reads the object', example: 'webhookDeliveries.get' }),
    params: z.record(z.string(), z.string()).meta({ description: 'Parameters of that operation, of path and query' }),
  })
  .meta({ id: 'FoundObject' })
export type FoundObject = z.output<typeof FoundObject>

/** A call with a tenant limit reaches no operation over all tenants, so the permission of an operation decides. */
export async function findObjects(
  { shares, database }: Pick<Kernel, 'shares' | 'database'>,
  term: string,
  timeoutMs: number,
) {
  const q = term.trim()
  const providers = COMPARED.flatMap((compared) =>
    shares.searchProviders.filter(({ compares }) => compares === compared),
  )
  const asked = providers.filter(({ accepts }) => accepts?.(q) ?? true).map((provider) => ({ ...provider, timeoutMs }))
  const results = await shares.read(asked, () => ({ q, limit: MAX_RESULTS, database }))
  const late = failedOf(results)
  if (late.length === results.length) await database.ping() // throws if the database is the reason
  const found = results.flatMap(({ result = [] }) => result).filter(isReadable)
  const distinct = new Map(found.toReversed().map((one) => [`${one.kind} ${one.tenantId} ${one.id}`, one]))
  const data = found.filter((one) => distinct.get(`${one.kind} ${one.tenantId} ${one.id}`) === one)
  return { data: data.slice(0, MAX_RESULTS).map((one) => ({ ...one, params: { ...one.params } })), late }
}
