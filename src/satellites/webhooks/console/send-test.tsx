/** Dialog: sends a test event to one subscription, and opens the delivery. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { go } from '../../../console/routing/router.tsx'
import { operationOf, paramsOf, pathOf, type Webhook } from './api.ts'
import { text } from './text.ts'

export default function SendTest({ target: { tenantId, webhookId }, onClose }: ActionProps<Webhook>) {
  const name = operationOf(tenantId, 'webhooks.test')
  const test = useAction(name, {
    done: text.testSent,
    onDone: ({ id }) => {
      onClose()
      go(pathOf(tenantId, webhookId, id))
    },
    showsProblem: true,
  })
  return (
    <Dialog title={text.test} description={text.testText} onClose={onClose}>
      <Form
        operation={name}
        submit={text.test}
        isRunning={test.isRunning}
        problem={test.problem}
        onCancel={onClose}
        onSubmit={(body) => test.run({ params: paramsOf(tenantId, webhookId), body })}
      >
        <Field name="event" label={text.testEvent} hint={text.testEventHint} autoFocus />
      </Form>
    </Dialog>
  )
}
