/** Overview of a tenant: identity, storage, jobs, and the cards of satellites. */
import { lazy, Suspense, useMemo } from 'react'
import { Card, Facts } from '../../console/components/base/page.tsx'
import { ExactTime } from '../../console/components/base/time.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { isPermitted } from '../../console/data/session.ts'
import { cards } from '../../console/routing/registry.ts'
import { useParams } from '../../console/routing/router.tsx'
import { text } from './text.ts'

export default function Overview() {
  const { id = '' } = useParams()
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  const views = useMemo(() => cards().map(({ view }) => lazy(view)), [])
  if (!tenant) return null
  const {
    domains,
    metadata,
    isolation,
    placement,
    createdAt,
    updatedAt,
    activatedAt,
    suspendedAt,
    deletedAt,
    purgeAt,
  } = tenant
  const { plan: _, ...others } = metadata
  return (
    <div className="overview">
      <div className="cards">
        <Card title={text.identity}>
          <Facts
            facts={{
              [text.domains]: domains.length > 0 ? domains.join(', ') : undefined,
              [text.metadata]: Object.keys(others).length > 0 ? <code>{JSON.stringify(others)}</code> : undefined,
              [text.isolation]: isolation,
              [text.placement]: placement,
            }}
          />
        </Card>
        <Card title={text.history}>
          <Facts
            facts={{
              [text.createdAt]: <ExactTime at={createdAt} />,
              [text.updatedAt]: <ExactTime at={updatedAt} />,
              [text.activatedAt]: activatedAt && <ExactTime at={activatedAt} />,
              [text.suspendedAt]: suspendedAt && <ExactTime at={suspendedAt} />,
              [text.deletedAt]: deletedAt && <ExactTime at={deletedAt} />,
              [text.purgeAt]: purgeAt && <ExactTime at={purgeAt} />,
            }}
          />
        </Card>
        {isPermitted('tenants.queue') && <Queue id={id} />}
        {views.map((View, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the list of modules is constant
          <Suspense key={index}>
            <View id={id} />
          </Suspense>
        ))}
      </div>
    </div>
  )
}

function Queue({ id }: { id: string }) {
  const { data } = useOperation('tenants.queue', { params: { id } })
  const queues = (data?.data ?? []).filter(({ waiting, active, failed }) => waiting + active + failed > 0)
  const { queue: name, waiting: waits, active: runs, failed: fails } = text.queueColumns
  return (
    <Card title={text.queue}>
      {queues.length === 0 ? (
        <p className="faint">{text.noJobs}</p>
      ) : (
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{name}</th>
              <th scope="col">{waits}</th>
              <th scope="col">{runs}</th>
              <th scope="col">{fails}</th>
            </tr>
          </thead>
          <tbody>
            {queues.map(({ queue, waiting, active, failed }) => (
              <tr key={queue}>
                <th scope="row">{queue}</th>
                <td>{waiting}</td>
                <td>{active}</td>
                <td>{failed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  )
}
