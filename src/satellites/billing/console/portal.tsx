/** Dialog: creates a link to the provider's pages for invoices and payment methods. */
import { useState } from 'react'
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Billing } from './billing.tsx'
import { LinkDialog } from './link.tsx'
import { text } from './text.ts'

export default function Portal({ target: { tenantId }, onClose }: ActionProps<Billing>) {
  const [url, setUrl] = useState<string>()
  const portal = useAction('billing.portal', { onDone: ({ url }) => setUrl(url), showsProblem: true, isSecret: true })
  if (url !== undefined) {
    return <LinkDialog title={text.portalReady} description={text.portalReadyText} url={url} onClose={onClose} />
  }
  return (
    <Dialog title={text.portal} description={text.portalText} onClose={onClose}>
      <Form
        operation="billing.portal"
        submit={text.create}
        isRunning={portal.isRunning}
        problem={portal.problem}
        onCancel={onClose}
        onSubmit={(body) => portal.run({ params: { id: tenantId }, body })}
      >
        <Field name="returnUrl" as="url" label={text.returnUrl} placeholder="https://" autoFocus />
      </Form>
    </Dialog>
  )
}
