/** Card on the overview of a tenant: plan, subscription, dunning. */
import { Card, Facts } from '../../../console/components/base/page.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { DunningState, SubscriptionStatus } from './billing.tsx'
import { text } from './text.ts'

export default function BillingCard({ id }: { id: string }) {
  const { data: billing } = useOperation('billing.get', { params: { id } })
  if (billing?.tenantId !== id) return null
  const { plan, subscription, dunning } = billing
  return (
    <Card title={text.billing} href={tenantHref(id, 'billing')}>
      <Facts
        facts={{
          [text.plan]: plan,
          [text.subscription]: <SubscriptionStatus of={subscription} />,
          [text.dunning]: dunning && <DunningState of={dunning} />,
        }}
      />
    </Card>
  )
}
