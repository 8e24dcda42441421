/** Resets the use of a quota, after the id of the tenant is typed. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Quota } from './quota.ts'
import { text } from './text.ts'

export default function ResetQuota({ target, onClose }: ActionProps<Quota>) {
  const { tenantId: id, quota, usage } = target
  const input = { params: { id }, body: { quota } }
  const reset = useAction('quotas.reset', { done: text.resetDone(quota), showsProblem: true, onDone: onClose })
  return (
    <Confirm
      title={text.resetTitle(quota)}
      word={id}
      confirm={text.reset}
      isRunning={reset.isRunning}
      problem={reset.problem}
      call={{ name: 'quotas.reset', input }}
      onConfirm={() => void reset.run(input)}
      onClose={onClose}
    >
      {text.resetText(id, usage)}
    </Confirm>
  )
}
