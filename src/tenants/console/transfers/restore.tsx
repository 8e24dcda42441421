/** Dialog: restores a tenant from a backup. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Backup } from './backup.ts'
import { text } from './text.ts'

export default function Restore({ target: { id, tenantId }, onClose }: ActionProps<Backup>) {
  const input = { params: { id: tenantId }, body: { backupId: id } }
  const action = useAction('backups.restore', { done: text.restoring(tenantId), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.restoreTitle(tenantId)}
      word={tenantId}
      confirm={text.restore}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'backups.restore', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.restoreText}</p>
    </Confirm>
  )
}
