/** Deliveries of all tenants and of the host. */
import { LinkButton } from '../../../console/components/base/button.tsx'
import { validTime } from '../../../console/components/base/local-time.ts'
import { PageHeader } from '../../../console/components/base/page.tsx'
import { useList } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { hrefOf } from './api.ts'
import { DeliveryList } from './delivery-list.tsx'
import { Statistics } from './statistics/statistics.tsx'
import { text } from './text.ts'

export default function Deliveries() {
  const { tenantId, state, event, status, sameResponseAs, ...window } = useSearch('webhookDeliveries.listAll')
  const [from, to] = [validTime(window.from), validTime(window.to)]
  const query = { tenantId, state, event, status, sameResponseAs, from, to }
  const setSearch = useSetSearch()
  const list = useList('webhookDeliveries.listAll', { query: { ...query, limit: 50 } })
  return (
    <>
      <PageHeader title={text.deliveries}>
        {isPermitted('hostWebhooks.list') && <LinkButton href={hrefOf(null)}>{text.hostWebhooks}</LinkButton>}
      </PageHeader>
      {isPermitted('webhooks.stats') && <Statistics tenantId={tenantId} from={from} to={to} onSelect={setSearch} />}
      <DeliveryList list={list} query={query} />
    </>
  )
}
