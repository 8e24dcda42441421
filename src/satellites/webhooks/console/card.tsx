/** Subscriptions that fail: on the card of a tenant's overview, with the deliveries of a day, and in a column of the list of tenants. */
import { Card } from '../../../console/components/base/page.tsx'
import { Absent, Status } from '../../../console/components/base/status.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import type { ColumnProps } from '../../../console/module.ts'
import { hrefOf } from './api.ts'
import { Bars } from './statistics/bars.tsx'
import { text } from './text.ts'

export default function WebhooksCard({ id }: { id: string }) {
  const { data } = useOperation('webhooks.list', { params: { id }, query: { limit: 200 } })
  if (!data) return null
  const failing = data.data.filter(({ enabled, health }) => !enabled || health.failingSince !== null).length
  return (
    <Card title={text.cardTitle} href={hrefOf(id)}>
      {data.data.length === 0 ? (
        <p className="faint">{text.noSubscriptions}</p>
      ) : (
        <>
          <p className="card-line">
            {failing > 0 ? (
              <Status state="failing" tone="bad">
                {text.failingCount(failing)}
              </Status>
            ) : (
              <Status state="healthy" tone="good">
                {text.subscriptions(data.data.length)}
              </Status>
            )}
          </p>
          {isPermitted('webhooks.stats') && <Bars tenantId={id} />}
        </>
      )}
    </Card>
  )
}

export function FailingCell({ tenant: { id }, data }: ColumnProps<'attention.list'>) {
  if (!data) return null
  const { data: entries, totals, failed } = data
  const count = entries.filter(({ tenantId }) => tenantId === id).length
  const isComplete = failed.length === 0 && totals.every(({ total }) => total <= entries.length)
  if (count === 0) return <Absent isUnknown={!isComplete} />
  return (
    <Status state="failing" tone="bad">
      {text.subscriptions(count)}
    </Status>
  )
}
