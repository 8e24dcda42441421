/** Moves the tenant of a quota to another plan. Each plan is shown with its limit of the quota. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { runAction, useAction, useOperation } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Quota } from './quota.ts'
import { text } from './text.ts'

export default function SetPlan({ target, onClose }: ActionProps<Quota>) {
  const { tenantId: id, quota } = target
  const { data: plans } = useOperation('plans.list', {})
  const { data: present } = useOperation('quotas.get', { params: { id } })
  const former = present?.plan
  const change = useAction('tenants.setPlan', {
    done: (_, { params: { plan } }) => text.planChanged(id, plan),
    undo: () =>
      former === undefined
        ? undefined
        : runAction('tenants.setPlan', { params: { id, plan: former } }, { done: text.planChanged(id, former) }),
    showsProblem: true,
    onDone: onClose,
  })
  return (
    <Dialog title={text.planTitle(id)} onClose={onClose}>
      {!plans || former === undefined ? (
        <Skeleton rows={2} />
      ) : plans.resolvedBy === 'host' ? (
        <p className="faint">{text.plansOfHost}</p>
      ) : (
        <Form
          operation="tenants.setPlan"
          submit={text.plan}
          isRunning={change.isRunning}
          problem={change.problem}
          onCancel={onClose}
          onSubmit={({ plan }: any) => void change.run({ params: { id, plan } })}
        >
          <Field
            name="plan"
            isExtra
            isRequired
            autoFocus
            isOpen
            label={text.planField}
            hint={text.planHint(quota)}
            defaultValue={former}
            options={Object.entries(plans.definitions).map(([plan, { limits }]) => [
              plan,
              text.planLimit(plan, limits[quota]),
            ])}
          />
        </Form>
      )}
    </Dialog>
  )
}
