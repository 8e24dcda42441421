/** Panel of a migration run: progress, facts, failed storages, cancellation. */
import { startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { ExactTime } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { finishedOf, isRunning, PROGRESS_MS, type Run } from './run.ts'
import { text } from './text.ts'

export function RunPanel({ runId, onClose }: { runId: string; onClose: () => void }) {
  const { data, error, refetch } = useOperation(
    'migrationRuns.get',
    { params: { runId } },
    { refetchInterval: ({ state }) => (state.data && !isRunning(state.data) ? false : PROGRESS_MS) },
  )
  const run = data?.id === runId ? data : undefined
  return (
    <Panel title={run ? text.runOf(run) : text.run} onClose={onClose}>
      {error && !run && <ProblemView error={error} onRetry={error.status === 404 ? undefined : refetch} />}
      {!run && !error && <Skeleton rows={4} />}
      {run && <RunView run={run} />}
    </Panel>
  )
}

function RunView({ run }: { run: Run }) {
  const { id, state, isCancelled, isBackground, isStopped, startedBy, stopAfterFailures, createdAt, finishedAt } = run
  const { total, done, failed, skipped } = run
  const finished = finishedOf(run)
  return (
    <div className="bulk-job">
      <label className="progress">
        <span>
          <Status state={state}>{isRunning(run) && isCancelled ? text.cancelling : state}</Status>
          <span className="faint">{text.progressOf(finished, total)}</span>
        </span>
        <progress
          max={Math.max(total, 1)}
          value={total === 0 ? 1 : finished}
          aria-label={text.progressOf(finished, total)}
        />
      </label>
      {isStopped && (
        <p className="notice" data-tone="bad">
          {text.stopped}
        </p>
      )}
      <Facts
        facts={{
          [text.done]: formatNumber(done),
          [text.failed]: failed > 0 && formatNumber(failed),
          [text.skipped]: skipped > 0 && formatNumber(skipped),
          [text.startedBy]: startedBy,
          [text.byWorkers]: isBackground ? text.workers : text.process,
          [text.stopAfter]: stopAfterFailures !== null && formatNumber(stopAfterFailures),
          [text.started]: <ExactTime at={createdAt} />,
          [text.finished]: finishedAt && <ExactTime at={finishedAt} />,
        }}
      />
      {failed > 0 && isPermitted('migrationRuns.items') && <Failures runId={id} />}
      {actionsOf('migrationRun', run).map((action) => (
        <Button key={action.name} onClick={() => startAction(action, run)}>
          {action.title}
        </Button>
      ))}
    </div>
  )
}

function Failures({ runId }: { runId: string }) {
  const { rows = [], loadMore } = useList('migrationRuns.items', { params: { runId }, query: { state: 'failed' } })
  return (
    <section aria-label={text.failures}>
      <h3>{text.failures}</h3>
      <ul className="findings">
        {rows.map(({ tenantId, isolation, placement, error }) => (
          <li key={`${tenantId} ${isolation} ${placement}`}>
            {tenantId ? <a href={tenantHref(tenantId)}>{tenantId}</a> : `${isolation} · ${placement}`}{' '}
            <code className="faint">{error?.code}</code>
            <p>{error?.message}</p>
          </li>
        ))}
      </ul>
      {loadMore && <Button onClick={loadMore}>{text.more}</Button>}
    </section>
  )
}
