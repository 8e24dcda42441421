/** Dialog: clones a tenant. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { goTo } from '../../../console/routing/router.tsx'
import type { Tenant } from '../base/tenant.ts'
import { text } from './text.ts'

export default function Clone({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const clone = useAction('tenants.clone', {
    done: (made) => text.cloning(made.name),
    onDone: (made) => {
      onClose()
      goTo(tenantHref(made.id))
    },
    showsProblem: true,
  })
  return (
    <Dialog title={`${text.clone}: ${name}`} description={text.cloneText} onClose={onClose}>
      <Form
        operation="tenants.clone"
        initial={{ name: text.copyName(name), data: true }}
        submit={text.clone}
        isRunning={clone.isRunning}
        problem={clone.problem}
        onCancel={onClose}
        onSubmit={(body) => clone.run({ params: { id }, body })}
      >
        <Field name="name" label={text.name} autoFocus />
        <Field name="id" label={text.id} hint={text.idHint} />
        <Field name="data" label={text.data} />
      </Form>
    </Dialog>
  )
}
