/** Confirmation: gives an object its state of another time. It shows the change of the present state, and runs the ordinary operation. */
import { Diff, differencesOf } from '../../../../console/components/base/diff.tsx'
import { ProblemView } from '../../../../console/components/base/problem.tsx'
import { Confirm } from '../../../../console/components/confirm.tsx'
import { Skeleton } from '../../../../console/components/lists/table.tsx'
import { etagOf } from '../../../../console/data/etags.ts'
import { useAction, useOperation } from '../../../../console/data/queries.ts'
import type { ActionProps, Restoration } from '../../../../console/module.ts'
import { text } from './text.ts'

export interface Restorable {
  readonly restoration: Restoration
  readonly tenantId: string
  /** Of the object, in the audit log. */
  readonly name: string
  readonly title: string
  readonly time: string
  /** Members that the restoration sets. */
  readonly state: Readonly<Record<string, unknown>>
}

export default function Restore({ target, onClose }: ActionProps<Restorable>) {
  const { restoration, tenantId, name, title, time } = target
  const input = restoration.readInput(tenantId, name)
  const { data: present, error, refetch } = useOperation(restoration.read, input)
  const change = useAction(restoration.change, {
    done: text.restored(title, time),
    showsProblem: true,
    onDone: onClose,
  })
  const isMissing = error?.status === 404 && error.code !== 'E_TENANT_NOT_FOUND'
  const isRead = present !== undefined || isMissing
  const former = (present !== undefined && !isMissing && restoration.stateOf(present)) || {}
  const state = { ...former, ...target.state }
  const isEqual = isRead && differencesOf(former, state).length === 0
  const call =
    isRead && !isEqual ? restoration.changeInput(tenantId, name, state, isMissing ? undefined : present) : undefined
  const ifMatch = isMissing ? undefined : etagOf(restoration.read, input)
  return (
    <Confirm
      title={text.restoreTitle(title)}
      confirm={text.confirm}
      isDestructive={false}
      reason={!isRead ? text.loading : isEqual ? text.isEqual : undefined}
      isRunning={change.isRunning}
      problem={change.problem}
      {...(call ? { call: { name: restoration.change, input: call } } : {})}
      onConfirm={() => void change.run(call, ifMatch ? { ifMatch } : {})}
      onClose={onClose}
    >
      {isEqual ? <p>{text.isEqual}</p> : <p>{text.restoreText(time)}</p>}
      {isMissing && <p>{text.isMissing}</p>}
      {!isRead && !error && <Skeleton rows={2} />}
      {error && !isMissing && <ProblemView error={error} onRetry={refetch} isCompact />}
      {isRead && !isEqual && <Diff before={former} after={state} />}
    </Confirm>
  )
}
