/** Constraints of the queries of operations, and those of operations of the host. */
import type { OperationName, Rules } from './contract.ts'
import queries from './queries.json' with { type: 'json' }

interface OperationRules {
  readonly name: string
  readonly query: Rules
  readonly body: Rules
}

const ofHost = new Map<string, OperationRules>()

/** Registers the rules of operations of a host. */
export function registerRules(operations: readonly OperationRules[]): void {
  for (const one of operations) ofHost.set(one.name, one)
}

/** Rules of an operation of a host; undefined for an operation of Tenantry. */
export const hostRulesOf = (name: string): OperationRules | undefined => ofHost.get(name)

/** Constraints of the query of an operation; undefined for an unknown operation of the host. */
export const queryRulesOf = (name: OperationName): Rules | undefined =>
  (queries as Readonly<Record<string, Rules>>)[name] ?? hostRulesOf(name)?.query
