/** Dialog: cancels a migration run. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Run } from './run.ts'
import { text } from './text.ts'

export default function Cancel({ target: { id }, onClose }: ActionProps<Run>) {
  const input = { params: { runId: id } }
  const action = useAction('migrationRuns.cancel', { done: text.cancelled, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.cancelTitle}
      confirm={text.cancel}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'migrationRuns.cancel', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.cancelText}</p>
    </Confirm>
  )
}
