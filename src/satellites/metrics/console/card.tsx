/** Usage on the overview of a tenant: requests and errors of 14 days. */
import { Card } from '../../../console/components/base/page.tsx'
import { Sparkline } from '../../../console/components/chart/sparkline.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { daysOf, type Sums } from './days.ts'
import { text } from './text.ts'

export default function UsageCard({ id }: { id: string }) {
  const { data: requests } = useOperation('metrics.sums', { query: { key: 'requests', tenantId: id } })
  const { data: errors } = useOperation('metrics.sums', { query: { key: 'errors', tenantId: id } })
  if (!requests || !errors || requests.total === 0) return null
  return (
    <Card title={text.usage} href={tenantHref(id, 'usage')}>
      <Line sums={requests} />
      <Line sums={errors} />
    </Card>
  )
}

function Line({ sums }: { sums: Sums }) {
  const days = daysOf(sums)
  return (
    <div className="sparkline-line">
      <p>
        <strong>{text.value(sums.key, sums.total)}</strong> {text.inDays(sums.key, days.length)}
      </p>
      <Sparkline values={days.map(({ value }) => value)} />
    </div>
  )
}
