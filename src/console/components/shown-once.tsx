/** Dialog with a value that is shown once: a token, a secret, an address. It exists only in this dialog. */
import type { ReactNode } from 'react'
import { Button, Copyable } from './base/button.tsx'
import { text } from './base/text.ts'
import { Dialog } from './dialog.tsx'

interface ShownOnceProps {
  readonly title: string
  readonly description: ReactNode
  /** Undefined: the response has none, because an earlier call has returned it. */
  readonly value: string | undefined
  /** In place of the description without a value. */
  readonly missing?: string
  /** Buttons before the close button. */
  readonly actions?: ReactNode
  readonly onClose: () => void
  /** Facts below the value. */
  readonly children?: ReactNode
}

export const ShownOnce = ({
  title,
  description,
  value,
  missing = text.shownEarlier,
  actions,
  onClose,
  children,
}: ShownOnceProps) => (
  <Dialog title={title} description={value === undefined ? missing : description} onClose={onClose}>
    {value !== undefined && (
      <p className="shown-once">
        <Copyable value={value} />
      </p>
    )}
    {children}
    <footer>
      {actions}
      <Button variant="primary" onClick={onClose}>
        {text.done}
      </Button>
    </footer>
  </Dialog>
)
