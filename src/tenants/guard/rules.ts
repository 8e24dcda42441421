/** The rules by which a guard admits a request of a known tenant, in their order. `tenants.explain` evaluates the same rules. */
import { USABLE_RULES } from '../registry/assert-usable.ts'
import type { Located } from '../registry/tenant-cache.ts'

/** The part of `tenancy.tenants` that the rules need. */
export interface CircuitSource {
  /** Throws `E_CIRCUIT_OPEN` if the tenant's storage is known to be unavailable. */
  assertCircuitClosed?(located: Located): void
}

export interface GuardRule {
  readonly check: (typeof USABLE_RULES)[number]['check'] | 'circuit'
  /** Throws the error of the response. */
  readonly assert: (tenants: CircuitSource, located: Located) => void
}

export const GUARD_RULES: readonly GuardRule[] = [
  ...USABLE_RULES.map(({ check, assert }) => ({
    check,
    assert: (_: CircuitSource, { tenant }: Located) => assert(tenant),
  })),
  { check: 'circuit', assert: (tenants, located) => tenants.assertCircuitClosed?.(located) },
]

export function assertAdmissible(tenants: CircuitSource, located: Located): void {
  for (const rule of GUARD_RULES) rule.assert(tenants, located)
}
