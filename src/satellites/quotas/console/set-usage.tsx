/** Sets the use of a quota. The toast reverts it. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { runAction, useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Quota } from './quota.ts'
import { text } from './text.ts'

export default function SetUsage({ target, onClose }: ActionProps<Quota>) {
  const { tenantId: id, quota, usage } = target
  const set = useAction('quotas.setUsage', {
    done: (_, { body }) => text.done(quota, body.value),
    undo: () =>
      runAction(
        'quotas.setUsage',
        { params: { id }, body: { quota, value: usage } },
        { done: text.done(quota, usage) },
      ),
    showsProblem: true,
    onDone: onClose,
  })
  return (
    <Dialog title={text.setTitle(quota)} description={text.setText} onClose={onClose}>
      <Form
        operation="quotas.setUsage"
        submit={text.save}
        isRunning={set.isRunning}
        problem={set.problem}
        onCancel={onClose}
        onSubmit={({ value }) => void set.run({ params: { id }, body: { quota, value } })}
      >
        <Field name="value" label={text.value} defaultValue={usage} autoFocus />
      </Form>
    </Dialog>
  )
}
