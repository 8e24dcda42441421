/** Bulk: the toolbar of selected tenants, the confirmation with the number typed, and the progress of the job. */
import { lazy, Suspense, useState } from 'react'
import type { Body, Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { Time } from '../../../console/components/base/time.tsx'
import { type Selection, useSelected } from '../../../console/components/lists/selection.ts'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { load } from '../../../console/data/load.ts'
import { useAction, useList, useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { bulkText as text } from './bulk-text.ts'

type Request = NonNullable<Body<'bulk.start'>>
type Job = Result<'bulk.get'>
type OperationOfBulk = Request['operation']

const OPERATIONS = Object.keys(text.operations) as OperationOfBulk[]
const ENDED: readonly Job['state'][] = ['completed', 'cancelled']
const PROGRESS_MS = 1_000
const PREFIX = 'bulk-'

/** Loaded when it opens, as all dialogs are. */
const BulkConfirm = lazy(() => load(() => import('./bulk-confirm.tsx')))

export const isBulkPermitted = (): boolean => isPermitted('bulk.start', 'bulk.get')

/** The job of the open panel. */
export const bulkOf = (open: string | undefined): string | undefined =>
  open?.startsWith(PREFIX) ? open.slice(PREFIX.length) : undefined

interface ToolbarProps {
  readonly selection: Selection
  /** The filter of the list: for all tenants that match it. */
  readonly filter: Request['filter']
  /** Whether the list has rows that are not loaded. */
  readonly hasMore: boolean
}

export function BulkToolbar({ selection, filter, hasMore }: ToolbarProps) {
  const panel = useOpen()
  const selected = useSelected(selection)
  const [extended, setExtended] = useState<ReadonlySet<string>>()
  const [operation, setOperation] = useState<OperationOfBulk>()
  if (selected.size === 0) return null
  const isAll = extended === selected // another selection ends it
  const scope = isAll ? { filter } : { tenantIds: [...selected] }
  return (
    <section className="bulk" aria-label={text.toolbar}>
      <p role="status">{isAll ? text.allSelected : text.selected(selected.size)}</p>
      {hasMore && !isAll && isPermitted('tenants.list') && (
        <Button variant="quiet" onClick={() => setExtended(selected)}>
          {text.selectAll}
        </Button>
      )}
      {OPERATIONS.filter((one) => isPermitted(one)).map((one) => (
        <Button key={one} onClick={() => setOperation(one)}>
          {text.operations[one]}…
        </Button>
      ))}
      <Button variant="quiet" onClick={() => selection.replace([])}>
        {text.clear}
      </Button>
      {operation && (
        <Suspense>
          <BulkConfirm
            key={operation}
            request={{ operation, ...scope }}
            onStarted={(bulkId) => {
              selection.replace([])
              setOperation(undefined)
              panel.open(`${PREFIX}${bulkId}`)
            }}
            onClose={() => setOperation(undefined)}
          />
        </Suspense>
      )}
    </section>
  )
}

/** Panel: a job, with its progress. */
export function BulkPanel({ bulkId, onClose }: { bulkId: string; onClose: () => void }) {
  const {
    data: job,
    error,
    refetch,
  } = useOperation(
    'bulk.get',
    { params: { bulkId } },
    { refetchInterval: ({ state }) => (state.data && ENDED.includes(state.data.state) ? false : PROGRESS_MS) },
  )
  return (
    <Panel title={text.job} onClose={onClose}>
      {error && !job && <ProblemView error={error} onRetry={error.status === 404 ? undefined : refetch} />}
      {!job && !error && <Skeleton rows={4} />}
      {job && <JobView job={job} />}
    </Panel>
  )
}

function JobView({ job }: { job: Job }) {
  const { id, operation, state, startedBy, total, pending, done, unchanged, failed, skipped, createdAt, failure } = job
  const hasEnded = ENDED.includes(state)
  const cancel = useAction('bulk.cancel', { done: text.cancelled })
  return (
    <div className="bulk-job">
      <label className="progress">
        <span>
          <Status state={state} tone={state === 'completed' && failed > 0 ? 'warning' : undefined} />
          <span className="faint">{text.progress(total - pending, total)}</span>
        </span>
        <progress max={Math.max(total, 1)} value={total - pending} />
      </label>
      {failure && (
        <p className="notice" data-tone="bad">
          {failure.message} <code>{failure.code}</code>
        </p>
      )}
      <Facts
        facts={{
          [text.operation]: text.operations[operation],
          [text.startedBy]: startedBy,
          [text.started]: <Time at={createdAt} />,
          [text.states.done]: formatNumber(done),
          [text.states.unchanged]: unchanged > 0 && formatNumber(unchanged),
          [text.states.skipped]: skipped > 0 && formatNumber(skipped),
          [text.states.failed]: failed > 0 && formatNumber(failed),
        }}
      />
      {failed > 0 && isPermitted('bulk.listResults') && <Failures bulkId={id} />}
      {!hasEnded && cancel.isPermitted && (
        <Button isRunning={cancel.isRunning} onClick={() => cancel.run({ params: { bulkId: id } })}>
          {text.cancel}
        </Button>
      )}
    </div>
  )
}

function Failures({ bulkId }: { bulkId: string }) {
  const { rows = [], loadMore } = useList('bulk.listResults', { params: { bulkId }, query: { state: 'failed' } })
  return (
    <section aria-label={text.failures}>
      <h3>{text.failures}</h3>
      <ul className="findings">
        {rows.map(({ tenantId, code, message }) => (
          <li key={tenantId}>
            <a href={tenantHref(tenantId)}>{tenantId}</a> <code className="faint">{code}</code>
            <p>{message}</p>
          </li>
        ))}
      </ul>
      {loadMore && <Button onClick={loadMore}>{text.more}</Button>}
    </section>
  )
}
