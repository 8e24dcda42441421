/** Confirmation: gives an object its state of another time. It shows the change of the present state, and runs the ordinary operation. */
import { useState } from 'react'
import { Diff, differencesOf } from '../../../../console/components/base/diff.tsx'
import { ProblemView } from '../../../../console/components/base/problem.tsx'
import { Confirm } from '../../../../console/components/confirm.tsx'
import { Skeleton } from '../../../../console/components/lists/table.tsx'
import { ShownOnce } from '../../../../console/components/shown-once.tsx'
import { etagOf } from '../../../../console/data/etags.ts'
import { useAction, useOperation } from '../../../../console/data/queries.ts'
import { isPermitted } from '../../../../console/data/session.ts'
import type { ActionProps, Restoration } from '../../../../console/module.ts'
import { text } from './text.ts'

export interface Restorable {
  readonly restoration: Restoration
  readonly tenantId: string
  /** Of the object, in the audit log. */
  readonly name: string
  readonly title: string
  readonly time: string
  /** As recorded. */
  readonly state: Readonly<Record<string, unknown>>
}

export default function Restore({ target, onClose }: ActionProps<Restorable>) {
  const { restoration, tenantId, name, title, time, state: recorded } = target
  const { creation } = restoration
  const input = restoration.readInput(tenantId, name)
  const { data: present, error, refetch } = useOperation(restoration.read, input)
  const [created, setCreated] = useState<{ readonly secret: string | undefined }>()
  const done = text.restored(title, time)
  const change = useAction(restoration.change, { done, showsProblem: true, onDone: onClose })
  const create = useAction(creation?.create ?? restoration.change, {
    done,
    showsProblem: true,
    isSecret: true,
    onDone: (result) => setCreated({ secret: creation?.secretOf(result) }),
  })
  const isMissing = error?.status === 404 && error.code !== 'E_TENANT_NOT_FOUND'
  const isNew = isMissing && Boolean(creation)
  const isRead = present !== undefined || isMissing
  const known = isMissing ? undefined : present
  const former = (known !== undefined && restoration.stateOf(known)) || {}
  const state = { ...former, ...restoration.stateOf(recorded, known) }
  const isEqual = isRead && differencesOf(former, state).length === 0
  const callOf = () =>
    isNew ? creation?.createInput(tenantId, state) : restoration.changeInput(tenantId, name, state, known)
  const call = isRead && !isEqual && !(isMissing && creation === null) ? callOf() : undefined
  const obstacle = () => {
    if (!isRead) return text.loading
    if (isEqual) return text.isEqual
    if (creation && isNew && !isPermitted(creation.create)) return text.mayNotCreate(creation.create)
    return call ? undefined : text.cannotCreate
  }
  const action = isNew ? create : change
  const ifMatch = isMissing ? undefined : etagOf(restoration.read, input)
  if (created) {
    return <ShownOnce title={title} description={text.secretOnce} value={created.secret} onClose={onClose} />
  }
  const reason = obstacle()
  const isPossible = reason === undefined
  return (
    <Confirm
      title={text.restoreTitle(title)}
      confirm={text.confirm}
      isDestructive={false}
      reason={reason}
      isRunning={action.isRunning}
      problem={action.problem}
      {...(call ? { call: { name: isNew ? creation?.create : restoration.change, input: call } } : {})}
      onConfirm={() => void action.run(call, ifMatch ? { ifMatch } : {})}
      onClose={onClose}
    >
      {isPossible && <p>{text.restoreText(time)}</p>}
      {isRead && reason && <p>{reason}</p>}
      {isPossible && isMissing && <p>{isNew ? text.isCreatedAgain : text.isMissing}</p>}
      {!isRead && !error && <Skeleton rows={2} />}
      {error && !isMissing && <ProblemView error={error} onRetry={refetch} isCompact />}
      {isPossible && <Diff before={former} after={state} />}
    </Confirm>
  )
}
