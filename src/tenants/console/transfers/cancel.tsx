/** Dialog: cancels a transfer. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { TransferOf } from './progress.tsx'
import { text } from './text.ts'

export default function Cancel({ target: { id, tenantId }, onClose }: ActionProps<TransferOf>) {
  const input = { params: { id: tenantId, transferId: id } }
  const action = useAction('transfers.cancel', { done: text.cancelled, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.cancelTitle}
      confirm={text.cancelTransfer}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'transfers.cancel', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.cancelText}</p>
    </Confirm>
  )
}
