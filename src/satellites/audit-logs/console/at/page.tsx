/** The page of a tenant at a time (`?at=`): read-only, and in a frame that distinguishes it from the present. */
import type { ReactNode } from 'react'
import { startAction } from '../../../../console/components/actions.tsx'
import { Button, Copyable, LinkButton } from '../../../../console/components/base/button.tsx'
import { Icon } from '../../../../console/components/base/icon.tsx'
import { validTime } from '../../../../console/components/base/local-time.ts'
import { Empty, PageHeader } from '../../../../console/components/base/page.tsx'
import { ProblemView } from '../../../../console/components/base/problem.tsx'
import { Badge, Status } from '../../../../console/components/base/status.tsx'
import { ExactTime } from '../../../../console/components/base/time.tsx'
import { Skeleton } from '../../../../console/components/lists/table.tsx'
import { useOperation } from '../../../../console/data/queries.ts'
import { href } from '../../../../console/routing/links.ts'
import { useParams, usePath, useSearch } from '../../../../console/routing/router.tsx'
import { showAt } from './action.ts'
import { Changes } from './changes.tsx'
import { Objects, type TenantAt } from './objects.tsx'
import { text } from './text.ts'

export default function TenantAtPage() {
  const { id = '' } = useParams()
  const search = useSearch('tenants.at')
  const [at, until] = [search.at, search.until].map(utcTime)
  return at === undefined ? (
    <Frame id={id}>
      <PageHeader title={id} />
      <Empty title={text.invalid} />
    </Frame>
  ) : (
    <Past key={`${id} ${at} ${until}`} id={id} at={at} until={until} />
  )
}

const utcTime = (at: string | undefined): string | undefined => {
  const valid = validTime(at)
  return valid && new Date(valid).toISOString()
}

/** The result is not read again: it shows until when its changes are. */
function Past({ id, at, until }: { id: string; at: string; until: string | undefined }) {
  const query = { time: at, ...(until ? { until } : {}) }
  const { data, error, refetch } = useOperation('tenants.at', { params: { id }, query }, { refetchInterval: false })
  const state = data?.tenant
  const name = typeof state?.name === 'string' ? state.name : id
  return (
    <Frame id={id} name={name} at={at} until={until}>
      <PageHeader title={name} context={text.context(at)} lead={state && <Lead at={data} />} />
      {error && <ProblemView error={error} onRetry={refetch} />}
      {!data && !error && <Skeleton />}
      {data && (
        <>
          <p>{text.completeness}</p>
          {data.isTruncated && <p>{text.truncated}</p>}
          {!state && <Empty title={text.missing}>{text.missingText}</Empty>}
          <Objects at={data} hasEnd={until !== undefined} />
          <Changes at={data} />
        </>
      )}
    </Frame>
  )
}

function Lead({ at: { tenantId, tenant, plan } }: { at: TenantAt }) {
  const { status, maintenance } = tenant ?? {}
  return (
    <>
      <Copyable value={tenantId} />
      {typeof status === 'string' && <Status state={status} />}
      {Boolean(maintenance) && <Badge tone="warning">{text.inMaintenance}</Badge>}
      {plan && <Badge>{plan}</Badge>}
    </>
  )
}

interface FrameProps {
  readonly id: string
  readonly name?: string
  readonly at?: string
  readonly until?: string | undefined
  readonly children: ReactNode
}

function Frame({ id, name = id, at, until, children }: FrameProps) {
  const path = usePath()
  return (
    <div className="past">
      <section className="bar" data-tone="warning" aria-label={text.frame}>
        <Icon name="warning" />
        <p className="bar-text">
          {at === undefined ? (
            text.invalid
          ) : (
            <>
              {text.bar}{' '}
              <strong>
                <ExactTime at={at} />
              </strong>
            </>
          )}
        </p>
        <Button onClick={() => void startAction(showAt, { id, name, at, until })}>{text.other}</Button>
        <LinkButton variant="primary" href={href(path)}>
          {text.back}
        </LinkButton>
      </section>
      <div className="past-content">{children}</div>
    </div>
  )
}
