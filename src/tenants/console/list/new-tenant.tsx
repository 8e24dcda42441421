/** Panel: creates a tenant. */
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { goTo } from '../../../console/routing/router.tsx'
import { text } from '../base/text.ts'

export default function NewTenant({ onClose }: { onClose: () => void }) {
  const { data: plans } = useOperation('plans.list', {})
  const create = useAction('tenants.create', {
    done: ({ name }) => text.created(name),
    onDone: ({ id }) => goTo(tenantHref(id)),
    showsProblem: true,
  })
  const names = plans?.resolvedBy === 'metadata' ? Object.keys(plans.definitions) : []
  return (
    <Panel title={text.newTenant} onClose={onClose}>
      <Form
        operation="tenants.create"
        submit={text.create}
        isRunning={create.isRunning}
        problem={create.problem}
        onCancel={onClose}
        onSubmit={({ plan, ...body }: any) =>
          create.run({ body: plan ? { ...body, metadata: { ...body.metadata, plan } } : body })
        }
      >
        <Field name="name" label={text.name} autoFocus />
        <Field name="id" label={text.id} hint={text.idHint} />
        {names.length > 0 && (
          <Field
            name="plan"
            isExtra
            label={text.plan}
            none={text.defaultPlan(plans?.defaultPlan ?? '')}
            options={names.map((name) => [name, name])}
          />
        )}
        <Field name="domains" label={text.domains} hint={text.domainsHint} />
        <Field name="isolation" label={text.isolation} hint={text.isolationHint} />
        <Field name="placement" label={text.placement} hint={text.placementHint} />
        <Field name="metadata" label={text.metadata} hint={text.metadataHint} />
      </Form>
    </Panel>
  )
}
