/** A transfer: its phases as steps, progress, failure, cancellation. */
import { startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Facts, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { ExactTime } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useCurrent } from '../../../console/routing/current.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { hasEnded, PHASES_OF, PROGRESS_MS, type TransferOf, TransferProgress } from './progress.tsx'
import { text } from './text.ts'

export default function Transfer() {
  const { id = '', transferId = '' } = useParams()
  const { data, error, refetch } = useOperation(
    'transfers.get',
    { params: { id, transferId } },
    { refetchInterval: ({ state }) => (state.data && hasEnded(state.data) ? false : PROGRESS_MS) },
  )
  const transfer = data?.id === transferId ? data : undefined
  useCurrent('transfer', transfer)
  if (error && !transfer) return <ProblemView error={error} onRetry={error.status === 404 ? undefined : refetch} />
  if (!transfer) return <Skeleton />
  const { kind, state, isolation, placement, backupId, sourceId, compared, attempts, failure } = transfer
  const { createdAt, startedAt, finishedAt } = transfer
  return (
    <Section
      title={text.transferOf(kind)}
      actions={actionsOf('transfer', transfer).map((action) => (
        <Button key={action.name} onClick={() => startAction(action, transfer)}>
          {action.title}
        </Button>
      ))}
    >
      {failure && (
        <p className="notice" data-tone="bad">
          {failure.message} <code>{failure.code}</code>
        </p>
      )}
      <Phases transfer={transfer} />
      <TransferProgress transfer={transfer} />
      <Facts
        facts={{
          [text.columns.state]: <Status state={state} />,
          [text.target]: `${isolation} · ${placement}`,
          [text.source]: sourceId && <a href={tenantHref(sourceId)}>{sourceId}</a>,
          [text.backup]: backupId && <code>{backupId}</code>,
          [text.compared]: compared,
          [text.attempts]: attempts > 1 && attempts,
          [text.columns.created]: <ExactTime at={createdAt} />,
          [text.started]: startedAt && <ExactTime at={startedAt} />,
          [text.finished]: finishedAt && <ExactTime at={finishedAt} />,
        }}
      />
      <p className="after">
        <a href={tenantHref(id, 'storage')}>{text.storage}</a>
      </p>
    </Section>
  )
}

function Phases({ transfer: { kind, state, phase } }: { transfer: TransferOf }) {
  const phases = PHASES_OF[kind]
  const position = state === 'completed' ? phases.length : Math.max(phases.indexOf(phase), 0)
  return (
    <ol className="phases">
      {phases.map((one, index) => {
        const step = index < position ? 'done' : index === position ? 'present' : 'next'
        const isFailed = step === 'present' && (state === 'failed' || state === 'cancelled')
        return (
          <li
            key={one}
            data-step={step}
            data-failed={isFailed || undefined}
            aria-current={step === 'present' ? 'step' : undefined}
          >
            {text.phases[one]}
            <span className="hidden">: {text.phaseOf(step)}</span>
          </li>
        )
      })}
    </ol>
  )
}
