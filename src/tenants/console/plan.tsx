/** The plan of a tenant, in its settings. */

import { Section } from '../../console/components/base/page.tsx'
import { Field, Form } from '../../console/components/forms/form.tsx'
import { runAction, useOperation } from '../../console/data/queries.ts'
import { planOf, type Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

export function Plan({ tenant }: { tenant: Tenant }) {
  const { data: plans } = useOperation('plans.list', {})
  if (!plans) return null
  const present = planOf(tenant) ?? plans.defaultPlan
  return (
    <Section title={text.plan}>
      {plans.resolvedBy === 'host' ? (
        <p className="faint">{text.plansOfHost}</p>
      ) : (
        <Form
          key={present}
          operation="tenants.setPlan"
          submit={text.changePlan}
          onSubmit={({ plan }: any) => setPlan(tenant, plan, present)}
        >
          <Field
            name="plan"
            isExtra
            isRequired
            label={text.plan}
            defaultValue={present}
            options={Object.keys(plans.definitions).map((name) => [name, name])}
          />
        </Form>
      )}
    </Section>
  )
}

const setPlan = ({ id, name, metadata }: Tenant, plan: string, former: string): Promise<unknown> =>
  runAction(
    'tenants.setPlan',
    { params: { id, plan } },
    {
      done: text.planChanged(name, plan),
      optimistic: () => ({ id, patch: { metadata: { ...metadata, plan } } }),
      undo: () =>
        runAction('tenants.setPlan', { params: { id, plan: former } }, { done: text.planChanged(name, former) }),
    },
  )
