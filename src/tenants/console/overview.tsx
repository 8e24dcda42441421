/** Overview of a tenant: access, anomalies, timeline, and the cards of satellites. */
import { Attention } from '../../console/components/attention.tsx'
import { Card, Facts } from '../../console/components/base/page.tsx'
import { ExactTime } from '../../console/components/base/time.tsx'
import { Slots } from '../../console/components/slots.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { isPermitted } from '../../console/data/session.ts'
import { cards } from '../../console/routing/registry.ts'
import { useParams } from '../../console/routing/router.tsx'
import { Access } from './access.tsx'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'
import { LastBackup } from './last-backup.tsx'
import { Queue } from './queue.tsx'
import { Timeline } from './timeline.tsx'

export default function Overview() {
  const { id = '' } = useParams()
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  if (tenant?.id !== id) return null
  return (
    <>
      {isPermitted('tenants.explain') && <Access tenant={tenant} />}
      <Anomalies id={id} />
      <div className="overview">
        {isPermitted('timeline.list') && <Timeline key={id} id={id} />}
        <div className="cards">
          <Slots entries={cards()} props={{ id }} />
          {isPermitted('backups.list') && <LastBackup id={id} />}
          {isPermitted('tenants.queue') && <Queue id={id} />}
          <Identity tenant={tenant} />
        </div>
      </div>
    </>
  )
}

function Anomalies({ id }: { id: string }) {
  const { data } = useOperation('attention.list', { query: { tenantId: id } })
  const own = data?.data.filter(({ tenantId }) => tenantId === id) ?? []
  if (own.length === 0) return null
  return (
    <section className="anomalies" aria-label={text.anomalies}>
      <Attention entries={own} isOfTenant />
    </section>
  )
}

function Identity({ tenant }: { tenant: Tenant }) {
  const { domains, metadata, createdAt, updatedAt, activatedAt, suspendedAt, deletedAt, purgeAt } = tenant
  const { plan: _, ...others } = metadata
  return (
    <Card title={text.identity}>
      <Facts
        facts={{
          [text.domains]: domains.length > 0 ? domains.join(', ') : undefined,
          [text.metadata]: Object.keys(others).length > 0 ? <code>{JSON.stringify(others)}</code> : undefined,
          [text.createdAt]: <ExactTime at={createdAt} />,
          [text.updatedAt]: <ExactTime at={updatedAt} />,
          [text.activatedAt]: activatedAt && <ExactTime at={activatedAt} />,
          [text.suspendedAt]: suspendedAt && <ExactTime at={suspendedAt} />,
          [text.deletedAt]: deletedAt && <ExactTime at={deletedAt} />,
          [text.purgeAt]: purgeAt && <ExactTime at={purgeAt} />,
        }}
      />
    </Card>
  )
}
