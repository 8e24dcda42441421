/** Dialog: starts an impersonation, and shows its token once. */
import { useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { ExactTime } from '../../../console/components/base/time.tsx'
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { ShownOnce } from '../../../console/components/shown-once.tsx'
import { useAction } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import type { ActionProps } from '../../../console/module.ts'
import { endImpersonation } from './impersonation.ts'
import { text } from './text.ts'

const MIN_REASON = 10
const DEFAULT_SECONDS = 900

type Tenant = Pick<Result<'tenants.get'>, 'id' | 'name'>

export default function Start({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const [started, setStarted] = useState<Result<'impersonations.start'>>()
  const start = useAction('impersonations.start', { onDone: setStarted, showsProblem: true, isSecret: true })
  if (started) {
    const { userId, token, expiresAt } = started
    const end = isPermitted('impersonations.end') && (
      <Button
        onClick={() => {
          onClose()
          void endImpersonation(started)
        }}
      >
        {text.endNow}
      </Button>
    )
    return (
      <ShownOnce
        title={text.shownTitle(userId)}
        description={text.shownText}
        value={token}
        actions={end}
        onClose={onClose}
      >
        <Facts facts={{ [text.validUntil]: <ExactTime at={expiresAt} /> }} />
      </ShownOnce>
    )
  }
  return (
    <Dialog title={text.startIn(name)} description={text.startText} onClose={onClose}>
      <Form
        operation="impersonations.start"
        initial={{ durationSeconds: DEFAULT_SECONDS }}
        submit={text.begin}
        isRunning={start.isRunning}
        problem={start.problem}
        onCancel={onClose}
        onSubmit={(body) => start.run({ params: { id }, body })}
      >
        <Field name="userId" label={text.user} hint={text.userHint} autoFocus />
        <Field name="reason" as="text" label={text.reason} hint={text.reasonHint} minLength={MIN_REASON} />
        <Field name="durationSeconds" label={text.duration} options={text.durations} isRequired />
      </Form>
    </Dialog>
  )
}
