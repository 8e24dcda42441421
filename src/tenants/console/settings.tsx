/** Settings of a tenant: name, domains, metadata, plan, and the danger zone. */
import { startAction } from '../../console/components/actions.tsx'
import { Button } from '../../console/components/base/button.tsx'
import { Section } from '../../console/components/base/page.tsx'
import { Field, Form } from '../../console/components/form.tsx'
import { useAction, useOperation } from '../../console/data/queries.ts'
import { isPermitted } from '../../console/data/session.ts'
import { actionsOf } from '../../console/routing/registry.ts'
import { useParams } from '../../console/routing/router.tsx'
import { Plan } from './plan.tsx'
import type { Tenant } from './tenant.ts'
import { text } from './text.ts'

const HINTS: Readonly<Record<string, string>> = {
  'tenants.activate': text.activateHint,
  'tenants.enterMaintenance': text.enterMaintenanceText,
  'tenants.suspend': text.suspendHint,
  'tenants.delete': text.deleteHint,
  'tenants.restore': text.restoreHint,
}

export default function Settings() {
  const { id = '' } = useParams()
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  if (!tenant) return null
  return (
    <div className="narrow">
      {isPermitted('tenants.update') && <General key={tenant.id} tenant={tenant} />}
      {isPermitted('tenants.setPlan', 'plans.list') && <Plan tenant={tenant} />}
      <Danger tenant={tenant} />
    </div>
  )
}

function General({ tenant: { id, name, domains, metadata } }: { tenant: Tenant }) {
  const update = useAction('tenants.update', { done: ({ name }) => text.saved(name), showsProblem: true })
  const removed = (next: Record<string, unknown>) =>
    Object.fromEntries(Object.keys(metadata).flatMap((key) => (key in next ? [] : [[key, null]])))
  return (
    <Section title={text.general}>
      <Form
        operation="tenants.update"
        initial={{ name, domains, metadata }}
        submit={text.save}
        isRunning={update.isRunning}
        problem={update.problem}
        onSubmit={(body) =>
          update.run({
            params: { id },
            body: { ...body, metadata: { ...removed(body.metadata ?? {}), ...body.metadata } },
          })
        }
      >
        <Field name="name" label={text.name} />
        <Field name="domains" label={text.domains} hint={text.domainsHint} />
        <Field name="metadata" label={text.metadata} hint={text.metadataHint} />
      </Form>
    </Section>
  )
}

function Danger({ tenant }: { tenant: Tenant }) {
  const actions = actionsOf('tenant', tenant)
  if (actions.length === 0) return null
  return (
    <Section title={text.danger}>
      <ul className="danger-zone">
        {actions.map((action) => (
          <li key={action.name}>
            <div>
              <p>{action.title.replace('…', '')}</p>
              <p className="faint">{HINTS[action.name]}</p>
            </div>
            <Button variant={action.isDestructive ? 'danger' : 'plain'} onClick={() => startAction(action, tenant)}>
              {action.title}
            </Button>
          </li>
        ))}
      </ul>
    </Section>
  )
}
