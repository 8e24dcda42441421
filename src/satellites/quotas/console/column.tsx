/** Column of the list of tenants: the most used quota, from 80 % of its limit on. */
import { Absent, Status } from '../../../console/components/base/status.tsx'
import type { ColumnProps } from '../../../console/module.ts'
import { toneOf } from './quota.ts'
import { text } from './text.ts'

export default function QuotaCell({ tenant: { id }, data }: ColumnProps<'quotas.top'>) {
  if (!data) return null
  // The greatest share comes first.
  const use = data.data.find(({ tenantId }) => tenantId === id)
  if (!use) return <Absent isUnknown={data.nextCursor !== null} />
  return (
    <Status state={use.quota} tone={toneOf(use.share)}>
      {text.percent(use.share)} {use.quota}
    </Status>
  )
}
