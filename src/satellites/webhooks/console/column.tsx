/** Column of the list of tenants: the number of subscriptions whose deliveries fail. */
import { Absent, Status } from '../../../console/components/base/status.tsx'
import { counted } from '../../../console/components/base/text.ts'
import type { ColumnProps } from '../../../console/module.ts'

export default function FailingCell({ tenant: { id }, data }: ColumnProps<'attention.list'>) {
  if (!data) return null
  const { data: entries, totals, failed } = data
  const count = entries.filter(({ tenantId }) => tenantId === id).length
  const isComplete = failed.length === 0 && totals.every(({ total }) => total <= entries.length)
  if (count === 0) return <Absent isUnknown={!isComplete} />
  return (
    <Status state="failing" tone="bad">
      {counted(count, 'subscription')}
    </Status>
  )
}
