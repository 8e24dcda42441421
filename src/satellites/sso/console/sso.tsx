/** Single sign-on of a tenant: state, form, test of the connection. */
import { useMemo } from 'react'
import type { Body, Result } from '../../../console/api/contract.ts'
import { startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Section } from '../../../console/components/base/page.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { Field } from '../../../console/components/forms/form.tsx'
import { ResourceForm } from '../../../console/components/forms/resource-form.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { ConnectionTest } from './connection-test.tsx'
import { text } from './text.ts'

type Settings = Result<'sso.get'>

export default function Sso() {
  const { id = '' } = useParams()
  const input = useMemo(() => ({ params: { id } }), [id])
  return (
    <div className="narrow">
      <Section title={text.sso} actions={<Actions id={id} />}>
        <ResourceForm
          key={id}
          read="sso.get"
          change="sso.update"
          input={input}
          submit={text.save}
          done={text.saved}
          initialOf={initialOf}
          bodyOf={bodyOf}
        >
          {({ clientSecretSet }) => (
            <>
              <Field name="issuer" as="url" label={text.issuer} hint={text.issuerHint} placeholder="https://" />
              <Field name="clientId" label={text.clientId} />
              <Field
                name="clientSecret"
                as="password"
                label={text.clientSecret}
                hint={clientSecretSet ? text.secretStored : text.secretNone}
              />
              <Field name="redirectUri" as="url" label={text.redirectUri} hint={text.redirectHint} />
              <Field name="scopes" label={text.scopes} hint={text.scopesHint} />
              <Field name="allowedDomains" label={text.allowedDomains} hint={text.domainsHint} />
              <Field name="enabled" label={text.enabled} hint={text.enabledHint} />
              <Field name="enforced" label={text.enforced} hint={text.enforcedHint} />
            </>
          )}
        </ResourceForm>
      </Section>
      {isPermitted('sso.test') && <ConnectionTest key={id} id={id} />}
    </div>
  )
}

function Actions({ id }: { id: string }) {
  const { data } = useOperation('sso.get', { params: { id } })
  if (!data) return null
  const target = { id, ...data }
  const state = data.enabled ? (data.enforced ? 'enforced' : 'on') : 'off'
  return (
    <>
      <Status state={state} tone={data.enabled ? 'good' : 'neutral'}>
        {text.states[state]}
      </Status>
      {actionsOf('sso', target).map((action) => (
        <Button key={action.name} onClick={() => startAction(action, target)}>
          {action.title}
        </Button>
      ))}
    </>
  )
}

/** The fields have no secret: the service returns none. */
const initialOf = ({ clientSecretSet: _, ...settings }: Settings): Partial<NonNullable<Body<'sso.update'>>> => settings

/** Complete state: an absent member would become null, except the secret, which stays. Without lists the defaults apply. */
const bodyOf = (fields: NonNullable<Body<'sso.update'>>): NonNullable<Body<'sso.update'>> => {
  const { scopes = [], ...others } = fields
  return scopes.length > 0 ? { ...others, scopes } : others
}
