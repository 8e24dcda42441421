/** Settings of a tenant: name, domains, metadata, plan, and the danger zone. */
import { useState } from 'react'
import type { Body } from '../../console/api/contract.ts'
import { startAction } from '../../console/components/actions.tsx'
import { Button } from '../../console/components/base/button.tsx'
import { Section } from '../../console/components/base/page.tsx'
import { ChangedMeanwhile, isChangedMeanwhile } from '../../console/components/changed.tsx'
import { Field, Form } from '../../console/components/forms/form.tsx'
import { etagOf } from '../../console/data/etags.ts'
import { useAction, useOperation } from '../../console/data/queries.ts'
import { isPermitted } from '../../console/data/session.ts'
import { actionsOf } from '../../console/routing/registry.ts'
import { useParams } from '../../console/routing/router.tsx'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'
import { Plan } from './plan.tsx'

const HINTS: Readonly<Record<string, string>> = {
  'tenants.activate': text.activateHint,
  'tenants.enterMaintenance': text.enterMaintenanceText,
  'tenants.suspend': text.suspendHint,
  'tenants.delete': text.deleteHint,
  'tenants.restore': text.restoreHint,
}

export default function Settings() {
  const { id = '' } = useParams()
  const { data: tenant, refetch } = useOperation('tenants.get', { params: { id } })
  if (tenant?.id !== id) return null
  return (
    <div className="narrow">
      {isPermitted('tenants.update') && <General key={tenant.id} tenant={tenant} refetch={refetch} />}
      {isPermitted('tenants.setPlan', 'plans.list') && <Plan tenant={tenant} />}
      <Danger tenant={tenant} />
    </div>
  )
}

/** The form keeps the state that it started with; a change of another operator meanwhile is shown, not overwritten. */
function General({ tenant, refetch }: { tenant: Tenant; refetch: () => Promise<{ data?: Tenant | undefined }> }) {
  const input = { params: { id: tenant.id } }
  const [base, setBase] = useState(() => ({ tenant, tag: etagOf('tenants.get', input) }))
  const [body, setBody] = useState<Body<'tenants.update'>>()
  const update = useAction('tenants.update', {
    done: ({ name }) => text.saved(name),
    showsProblem: true,
    onDone: (tenant, _, tag) => setBase({ tenant, tag }),
  })
  const load = async () => {
    const { data } = await refetch()
    if (data) setBase({ tenant: data, tag: etagOf('tenants.get', input) })
    update.reset()
  }
  const { name, domains, metadata } = base.tenant
  const send = (changed: Body<'tenants.update'>, ifMatch: string | undefined) => {
    setBody(changed)
    const removed = Object.keys(metadata).filter((key) => !(key in (changed.metadata ?? {})))
    const patch = { ...Object.fromEntries(removed.map((key) => [key, null])), ...changed.metadata }
    void update.run({ ...input, body: { ...changed, metadata: patch } }, ifMatch ? { ifMatch } : {})
  }
  const problem = isChangedMeanwhile(update.problem) ? null : update.problem
  return (
    <Section title={text.general}>
      {isChangedMeanwhile(update.problem) && (
        <ChangedMeanwhile
          problem={update.problem}
          base={base.tenant}
          onLoad={load}
          onApply={() => body && send(body, undefined)}
        />
      )}
      <Form
        key={base.tenant.updatedAt}
        operation="tenants.update"
        initial={{ name, domains, metadata }}
        submit={text.save}
        isRunning={update.isRunning}
        problem={problem}
        onSubmit={(changed) => send(changed, base.tag)}
      >
        <Field name="name" label={text.name} isRequired />
        <Field name="domains" label={text.domains} hint={text.domainsHint} />
        <Field name="metadata" label={text.metadata} hint={text.metadataHint} />
      </Form>
    </Section>
  )
}

function Danger({ tenant }: { tenant: Tenant }) {
  const actions = actionsOf('tenant', tenant).filter(({ name }) => name in HINTS)
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
