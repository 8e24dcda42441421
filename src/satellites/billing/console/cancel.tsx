/** Dialog: ends a subscription, at the end of the paid period or immediately. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Billing } from './billing.tsx'
import { text } from './text.ts'

const WHEN = [
  ['period', text.cancelAtEnd],
  ['now', text.cancelNow],
] as const

export default function Cancel({ target: { tenantId }, onClose }: ActionProps<Billing>) {
  const cancel = useAction('billing.cancel', { done: text.canceled(tenantId), onDone: onClose, showsProblem: true })
  return (
    <Dialog title={text.cancelTitle(tenantId)} description={text.cancelText} onClose={onClose}>
      <Form
        operation="billing.cancel"
        submit={text.cancel}
        isDestructive
        isRunning={cancel.isRunning}
        problem={cancel.problem}
        onCancel={onClose}
        onSubmit={({ when }: any) => cancel.run({ params: { id: tenantId }, body: { atPeriodEnd: when !== 'now' } })}
      >
        <Field name="when" isExtra isRequired label={text.cancelWhen} options={WHEN} defaultValue="period" />
      </Form>
    </Dialog>
  )
}
