/** Quotas on the overview of a tenant: the three with the largest share. */
import { Card } from '../../../console/components/base/page.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { QuotaBar } from './bar.tsx'
import { useForecasts } from './forecasts.ts'
import { quotasOf, shareOf } from './quota.ts'
import { text } from './text.ts'

const SHOWN = 3

export default function QuotaCard({ id }: { id: string }) {
  const { data } = useOperation('quotas.get', { params: { id } })
  const forecastOf = useForecasts(id, data)
  const quotas = data ? quotasOf(id, data).filter(({ limit }) => limit !== undefined) : []
  if (quotas.length === 0) return null
  const shown = quotas.toSorted((a, b) => (shareOf(b) ?? 0) - (shareOf(a) ?? 0)).slice(0, SHOWN)
  return (
    <Card title={text.quotas} href={tenantHref(id, 'quotas')}>
      {shown.map((quota) => (
        <div key={quota.quota}>
          <code>{quota.quota}</code>
          <QuotaBar {...quota} forecast={forecastOf(quota)} />
        </div>
      ))}
    </Card>
  )
}
