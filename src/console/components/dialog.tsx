/** A modal dialog. Screens load it with the view that contains it. */
import { Dialog as Base } from '@base-ui/react/dialog'
import type { ReactNode } from 'react'
import { IconButton } from './base/button.tsx'
import { text } from './base/text.ts'
import { layers } from './layers.ts'

export interface DialogProps {
  readonly title: string
  readonly description?: ReactNode
  readonly isWide?: boolean
  readonly onClose: () => void
  readonly children: ReactNode
}

export const Dialog = ({ title, description, isWide = false, onClose, children }: DialogProps) => (
  <Base.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
    <Base.Portal container={layers()}>
      <Base.Backdrop className="backdrop" />
      <Base.Viewport className="dialog-viewport">
        <Base.Popup className={isWide ? 'dialog wide' : 'dialog'}>
          <header>
            <Base.Title>{title}</Base.Title>
            <Base.Close render={<IconButton icon="close" label={text.close} />} />
          </header>
          {description && <Base.Description render={<div className="dialog-text" />}>{description}</Base.Description>}
          {children}
        </Base.Popup>
      </Base.Viewport>
    </Base.Portal>
  </Base.Root>
)
