/** Dialog: opens the page of a tenant at a time, with the changes until another time. */
import { useState } from 'react'
import { fromLocal, toLocal } from '../../../../console/components/base/local-time.ts'
import { Dialog } from '../../../../console/components/dialog.tsx'
import { Field, Form } from '../../../../console/components/forms/form.tsx'
import type { ActionProps } from '../../../../console/module.ts'
import { tenantHref } from '../../../../console/routing/links.ts'
import { goTo } from '../../../../console/routing/router.tsx'
import { text } from './text.ts'

interface Target {
  readonly id: string
  readonly name: string
  /** Times that are shown already. */
  readonly at?: string | undefined
  readonly until?: string | undefined
}

export default function Show({ target: { id, name, at, until }, onClose }: ActionProps<Target>) {
  const [proposed] = useState(() => toLocal(at ?? new Date()))
  const show = (times: { readonly time: string; readonly until?: string }) => {
    const [from, to] = [times.time, times.until ?? ''].map(fromLocal)
    const [first, last] = to === undefined ? [from] : [from, to].toSorted()
    onClose()
    goTo(tenantHref(id, '', { at: first, until: last }))
  }
  return (
    <Dialog title={text.title(name)} description={text.description} onClose={onClose}>
      <Form operation="tenants.at" submit={text.show} onCancel={onClose} onSubmit={show}>
        <Field name="time" as="datetime-local" isExtra isRequired autoFocus label={text.time} defaultValue={proposed} />
        <Field
          name="until"
          as="datetime-local"
          isExtra
          label={text.until}
          hint={text.untilHint}
          defaultValue={toLocal(until)}
        />
      </Form>
    </Dialog>
  )
}
