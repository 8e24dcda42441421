/** Dialog: starts a run for all tenants with pending migrations. Their number must be typed. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { isBehind, type Version } from './run.ts'
import { text } from './text.ts'

export function StartRun({ versions, onClose }: { versions: readonly Version[]; onClose: () => void }) {
  const panel = useOpen()
  const behind = versions.filter(isBehind)
  const count = behind.reduce((sum, { tenants }) => sum + tenants, 0)
  const pending = [...new Set(behind.flatMap(({ pending }) => pending))].sort()
  const start = useAction('migrationRuns.start', {
    done: text.startDone,
    showsProblem: true,
    onDone: ({ id }) => {
      onClose()
      panel.open(id)
    },
  })
  const input = { body: {} }
  return (
    <Confirm
      title={text.startTitle(count)}
      word={String(count)}
      confirm={text.start}
      isDestructive={false}
      isRunning={start.isRunning}
      problem={start.problem}
      call={{ name: 'migrationRuns.start', input }}
      onConfirm={() => start.run(input)}
      onClose={onClose}
    >
      <p>{text.startText}</p>
      {pending.length > 0 && <p>{text.pendingOf(pending)}</p>}
    </Confirm>
  )
}
