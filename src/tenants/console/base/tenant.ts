/** The tenant as the screens see it. */
import type { Result } from '../../../console/api/contract.ts'

export type Tenant = Result<'tenants.get'>

/** The plan as the default rule reads it. */
export const planOf = ({ metadata }: Tenant): string | undefined =>
  typeof metadata.plan === 'string' ? metadata.plan : undefined
