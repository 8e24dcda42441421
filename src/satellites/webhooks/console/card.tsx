/** Card on the overview of a tenant: deliveries of a day, and subscriptions that fail. */
import { Card } from '../../../console/components/base/page.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
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
