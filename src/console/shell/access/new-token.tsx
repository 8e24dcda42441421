/** Panel: creates an API token, and shows it once. */
import { useState } from 'react'
import type { Body } from '../../api/contract.ts'
import { Field, Form } from '../../components/forms/form.tsx'
import { Panel } from '../../components/panel.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { useAction } from '../../data/queries.ts'
import { text } from './text.ts'

export function NewToken({ onClose }: { onClose: () => void }) {
  const [shown, setShown] = useState<{ readonly name: string; readonly token: string | undefined }>()
  const create = useAction('tokens.create', {
    onDone: ({ name, token }) => setShown({ name, token }),
    showsProblem: true,
    isSecret: true,
  })
  if (shown) {
    return (
      <ShownOnce
        title={text.shownTitle(shown.name)}
        description={text.shownText}
        value={shown.token}
        onClose={onClose}
      />
    )
  }
  return (
    <Panel title={text.newToken} onClose={onClose}>
      <Form
        operation="tokens.create"
        submit={text.create}
        isRunning={create.isRunning}
        problem={create.problem}
        onCancel={onClose}
        onSubmit={(body) => create.run({ body: requestOf(body) })}
      >
        <Field name="name" label={text.name} hint={text.nameHint} autoFocus />
        <Field name="may" label={text.may} hint={text.mayHint} placeholder="tenants.*" />
        <Field name="tenants" label={text.tenants} hint={text.tenantsHint} />
        <Field name="expiresAt" as="datetime-local" label={text.expiresAt} hint={text.expiresHint} />
      </Form>
    </Panel>
  )
}

/** An empty list of tenants is no limit. The field holds local time. */
const requestOf = ({ tenants = [], expiresAt, ...body }: Body<'tokens.create'>): Body<'tokens.create'> => ({
  ...body,
  ...(tenants.length > 0 ? { tenants } : {}),
  ...(expiresAt ? { expiresAt: new Date(expiresAt).toISOString() } : {}),
})
