/** Dialog: puts a tenant into maintenance. */
import { Dialog } from '../../console/components/dialog.tsx'
import { Field, Form } from '../../console/components/forms/form.tsx'
import { runAction, useAction } from '../../console/data/queries.ts'
import type { ActionProps } from '../../console/module.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

export default function Maintenance({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const enter = useAction('tenants.enterMaintenance', {
    done: text.maintenanceStarted(name),
    undo: () => runAction('tenants.exitMaintenance', { params: { id } }, { done: text.maintenanceEnded(name) }),
    onDone: onClose,
    showsProblem: true,
  })
  return (
    <Dialog title={text.enterMaintenance} description={text.enterMaintenanceText} onClose={onClose}>
      <Form
        operation="tenants.enterMaintenance"
        submit={text.enterMaintenance}
        isRunning={enter.isRunning}
        problem={enter.problem}
        onCancel={onClose}
        onSubmit={(body) => enter.run({ params: { id }, body })}
      >
        <Field name="message" label={text.maintenanceMessage} autoFocus />
        <Field name="retryAfterSeconds" label={text.retryAfter} />
      </Form>
    </Dialog>
  )
}
