/** Column of the list of tenants: the dunning case. */
import { Absent } from '../../../console/components/base/status.tsx'
import type { ColumnProps } from '../../../console/module.ts'
import { DunningState } from './billing.tsx'

export default function DunningCell({ tenant: { id }, data }: ColumnProps<'billing.list'>) {
  if (!data) return null
  const row = data.data.find(({ tenantId }) => tenantId === id)
  return row ? <DunningState of={row.dunning} /> : <Absent isUnknown={data.nextCursor !== null} />
}
