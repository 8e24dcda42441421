/** Addresses of objects that the service names by an operation and its parameters: results of the search, attention, the timeline. */
import type { OperationName } from '../api/contract.ts'
import { queryRulesOf } from '../api/rules.ts'
import { linkTo, tenantHref } from './links.ts'

export interface Reference {
  readonly operation: string
  readonly params: Readonly<Record<string, string>>
}

/** The address of the screen that shows it; of its tenant without a screen. Undefined if no screen shows it. */
export function referenceHref({ operation, params }: Reference, tenantId?: string | null): string | undefined {
  const name = operation as OperationName
  const query = queryRulesOf(name) ?? {}
  const search = Object.fromEntries(Object.entries(params).filter(([key]) => key in query))
  return linkTo(name, params, search) ?? (tenantId ? tenantHref(tenantId) : undefined)
}
