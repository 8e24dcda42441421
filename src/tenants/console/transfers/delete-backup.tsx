/** Dialog: deletes a backup. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Backup } from './backup.ts'
import { text } from './text.ts'

export default function DeleteBackup({ target: { id, tenantId }, onClose }: ActionProps<Backup>) {
  const input = { params: { id: tenantId, backupId: id } }
  const action = useAction('backups.delete', { done: text.backupDeleted, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.deleteBackupTitle}
      word={tenantId}
      confirm={text.deleteBackup}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'backups.delete', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.deleteBackupText}</p>
    </Confirm>
  )
}
