/** Dialog: gives a subscription a new secret, and shows it once. */
import { useState } from 'react'
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { ShownOnce } from '../../../console/components/shown-once.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { operationOf, paramsOf, type Webhook } from './api.ts'
import { text } from './text.ts'

export default function RotateSecret({ target: { tenantId, webhookId }, onClose }: ActionProps<Webhook>) {
  const [rotated, setRotated] = useState<{ secret?: string }>()
  const name = operationOf(tenantId, 'webhooks.rotateSecret')
  const rotate = useAction(name, {
    done: text.rotated,
    onDone: ({ secret }) => setRotated(secret === undefined ? {} : { secret }),
    isSecret: true,
    showsProblem: true,
  })
  if (rotated) {
    const { secretTitle, secretOnce, secretMissing } = text
    return (
      <ShownOnce
        title={secretTitle}
        description={secretOnce}
        value={rotated.secret}
        missing={secretMissing}
        onClose={onClose}
      />
    )
  }
  return (
    <Dialog title={text.rotate} description={text.rotateText} onClose={onClose}>
      <Form
        operation={name}
        submit={text.rotate}
        isDestructive
        isRunning={rotate.isRunning}
        problem={rotate.problem}
        onCancel={onClose}
        onSubmit={(body) => rotate.run({ params: paramsOf(tenantId, webhookId), body })}
      >
        <Field name="graceSeconds" label={text.grace} hint={text.graceHint} autoFocus />
      </Form>
    </Dialog>
  )
}
