/** One entry of the audit log: author, object, and the difference between the states before and after. */
import { Copyable, LinkButton } from '../../../console/components/base/button.tsx'
import { Json } from '../../../console/components/base/code.tsx'
import { Diff } from '../../../console/components/base/diff.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { ExactTime } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { href, tenantHref } from '../../../console/routing/links.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { text } from './text.ts'

export function EntryPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const { data, error, refetch } = useOperation('auditLogs.get', { params: { entryId: id } })
  const entry = data?.id === id ? data : undefined
  return (
    <Panel title={entry?.action ?? text.entry} onClose={onClose}>
      {entry ? <Entry entry={entry} /> : error ? <ProblemView error={error} onRetry={refetch} /> : <Skeleton />}
    </Panel>
  )
}

/** A time includes the changes at it. */
const justBefore = (at: string): string => new Date(Date.parse(at) - 1).toISOString()

type Shown = NonNullable<ReturnType<typeof useOperation<'auditLogs.get'>>['data']>

function Entry({ entry }: { entry: Shown }) {
  const { tenantId, actor, target, before, after, requestId, ip, outcome, createdAt, hash } = entry
  const { id } = useParams()
  const logHref = (search: Readonly<Record<string, string>>) =>
    id === undefined ? href('/audit', search) : tenantHref(id, 'audit', search)
  const { facts } = text
  return (
    <div className="entry">
      <Facts
        facts={{
          [facts.time]: <ExactTime at={createdAt} />,
          [facts.outcome]: (
            <Status state={outcome} tone={outcome === 'success' ? 'good' : 'bad'}>
              {text.outcomes[outcome]}
            </Status>
          ),
          [facts.actor]: (
            <>
              {actor.name} <span className="faint">{actor.type}</span>
            </>
          ),
          [facts.tenant]: tenantId && <a href={tenantHref(tenantId)}>{tenantId}</a>,
          [facts.target]: <code>{target}</code>,
          [facts.requestId]: requestId && <Copyable value={requestId} />,
          [facts.ip]: ip && <code>{ip}</code>,
          [facts.hash]: hash ? <Copyable value={hash} /> : <span className="faint">{text.unsealed}</span>,
          [facts.id]: <Copyable value={entry.id} />,
        }}
      />
      <section>
        <h3>{text.changes}</h3>
        {before === null && after === null ? (
          <p className="faint">{text.noStates}</p>
        ) : (
          <Diff before={before ?? {}} after={after ?? {}} />
        )}
      </section>
      <div className="section-actions">
        <LinkButton href={logHref({ target })}>{text.allOfObject}</LinkButton>
        {tenantId && isPermitted('tenants.at') && (
          <LinkButton href={tenantHref(tenantId, '', { at: justBefore(createdAt) })}>{text.stateBefore}</LinkButton>
        )}
        {requestId && <LinkButton href={logHref({ requestId })}>{text.sameRequest}</LinkButton>}
      </div>
      {(before !== null || after !== null) && (
        <details className="api-call">
          <summary>{text.states}</summary>
          {before && <Json value={before} label={text.before} />}
          {after && <Json value={after} label={text.after} />}
        </details>
      )}
    </div>
  )
}
