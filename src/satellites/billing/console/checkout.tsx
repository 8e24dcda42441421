/** Dialog: begins a checkout at the payment provider, and shows its link. */
import { useState } from 'react'
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Billing } from './billing.tsx'
import { LinkDialog } from './link.tsx'
import { text } from './text.ts'

export default function Checkout({ target: { tenantId }, onClose }: ActionProps<Billing>) {
  const [url, setUrl] = useState<string>()
  const checkout = useAction('billing.checkout', {
    onDone: ({ url }) => setUrl(url),
    showsProblem: true,
    isSecret: true,
  })
  if (url !== undefined) {
    return <LinkDialog title={text.checkoutReady} description={text.checkoutReadyText} url={url} onClose={onClose} />
  }
  return (
    <Dialog title={text.checkout} description={text.checkoutText} onClose={onClose}>
      <Form
        operation="billing.checkout"
        submit={text.create}
        isRunning={checkout.isRunning}
        problem={checkout.problem}
        onCancel={onClose}
        onSubmit={(body) => checkout.run({ params: { id: tenantId }, body })}
      >
        <Field name="priceId" label={text.priceId} hint={text.priceHint} autoFocus />
        <Field name="successUrl" as="url" label={text.successUrl} placeholder="https://" />
        <Field name="cancelUrl" as="url" label={text.cancelUrl} placeholder="https://" />
        <Field name="trialDays" label={text.trialDays} />
        <Field name="allowPromotionCodes" label={text.allowPromotionCodes} />
      </Form>
    </Dialog>
  )
}
