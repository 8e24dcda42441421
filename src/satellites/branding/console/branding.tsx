/** Branding of a tenant: form, preview of the present input, contrast of its colours. */
import { useMemo } from 'react'
import type { Body, Result } from '../../../console/api/contract.ts'
import { Field } from '../../../console/components/forms/form.tsx'
import { ResourceForm } from '../../../console/components/forms/resource-form.tsx'
import { useParams } from '../../../console/routing/router.tsx'
import { Contrast } from './contrast-table.tsx'
import { Preview } from './preview.tsx'
import { text } from './text.ts'

export default function Branding() {
  const { id = '' } = useParams()
  const input = useMemo(() => ({ params: { id } }), [id])
  return (
    <ResourceForm
      key={id}
      read="branding.get"
      change="branding.update"
      input={input}
      submit={text.save}
      done={text.saved}
      initialOf={initialOf}
      bodyOf={(fields) => fields}
      aside={(values) => (
        <div className="aside">
          <Preview values={values} />
          <Contrast values={values} />
        </div>
      )}
    >
      {() => <Fields />}
    </ResourceForm>
  )
}

/** An absent member becomes null. */
const initialOf = (state: Result<'branding.get'>): Partial<NonNullable<Body<'branding.update'>>> =>
  Object.fromEntries(Object.entries(state).filter(([, value]) => value !== null))

const Fields = () => (
  <>
    <Field name="displayName" label={text.displayName} />
    <Field name="primaryColor" label={text.primaryColor} hint={text.colourHint} placeholder="#1a2b3c" />
    <Field name="accentColor" label={text.accentColor} hint={text.colourHint} placeholder="#1a2b3c" />
    <Field name="logoUrl" as="url" label={text.logoUrl} hint={text.urlHint} placeholder="https://" />
    <Field name="faviconUrl" as="url" label={text.faviconUrl} hint={text.urlHint} placeholder="https://" />
    <Field name="supportEmail" as="email" label={text.supportEmail} />
    <Field name="supportUrl" as="url" label={text.supportUrl} placeholder="https://" />
    <Field name="fromName" label={text.fromName} />
    <Field name="fromEmail" as="email" label={text.fromEmail} />
    <Field name="customCss" as="textarea" label={text.customCss} hint={text.customCssHint} />
  </>
)
