/** Dialog: returns a tenant to its former storage. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Tenant } from '../base/tenant.ts'
import { text } from './text.ts'

export default function UndoMove({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const input = { params: { id }, body: { undo: true } }
  const action = useAction('tenants.move', { done: text.undoing(name), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.undoTitle(name)}
      word={id}
      confirm={text.undoMove}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'tenants.move', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.undoText}</p>
    </Confirm>
  )
}
