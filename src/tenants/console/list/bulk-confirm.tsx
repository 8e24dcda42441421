/** Confirmation of a bulk job: the number of tenants is typed. */
import { useEffect, useState } from 'react'
import type { Body, Result } from '../../../console/api/contract.ts'
import { Confirm } from '../../../console/components/confirm.tsx'
import { Select } from '../../../console/components/select.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import { bulkText as text } from './bulk-text.ts'

type Request = NonNullable<Body<'bulk.start'>>

interface ConfirmProps {
  readonly request: Request
  readonly onStarted: (bulkId: string) => void
  readonly onClose: () => void
}

/** Predicts the results first. */
export default function BulkConfirm({ request, onStarted, onClose }: ConfirmProps) {
  const { data: plans } = useOperation('plans.list', {}, { enabled: request.operation === 'tenants.setPlan' })
  const [plan, setPlan] = useState<string>()
  const needsPlan = request.operation === 'tenants.setPlan'
  const body: Request = { ...request, ...(plan ? { plan } : {}) }
  const [predicted, setPredicted] = useState<Result<'bulk.get'>>()
  const { run: predict, problem: cannot } = useAction('bulk.start', { showsProblem: true, onDone: setPredicted })
  const start = useAction('bulk.start', {
    showsProblem: true,
    onDone: ({ id }) => onStarted(id),
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the request of a dialog is constant, except its plan
  useEffect(() => {
    if (!needsPlan || plan) void predict({ body: { ...body, dryRun: true } })
  }, [plan])
  const title = text.operations[request.operation]
  return (
    <Confirm
      title={text.title(title)}
      word={predicted ? String(predicted.total) : '…'}
      confirm={title}
      isDestructive={text.destructive.includes(request.operation)}
      isRunning={start.isRunning}
      problem={start.problem ?? cannot}
      call={{ name: 'bulk.start', input: { body } }}
      onConfirm={() => predicted && start.run({ body })}
      onClose={onClose}
    >
      <p>{text.effects[request.operation]}</p>
      {needsPlan && plans && (
        <Select
          label={text.plan}
          none={text.choosePlan}
          value={plan}
          options={Object.keys(plans.definitions).map((name) => [name, name])}
          onChange={(value) => {
            setPredicted(undefined)
            setPlan(value)
          }}
        />
      )}
      {predicted ? <p>{text.prediction(predicted)}</p> : (!needsPlan || plan) && !cannot && <p>{text.predicting}</p>}
    </Confirm>
  )
}
