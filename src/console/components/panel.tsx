/** A panel next to the content, which the address opens: `?open=`. `Esc` closes it, and the focus returns. */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { IconButton } from './base/button.tsx'
import { text } from './base/text.ts'

interface PanelProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
}

export function Panel({ title, onClose, children }: PanelProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  // Read before a field of the panel takes the focus.
  const [opener] = useState(() => document.activeElement as HTMLElement | null)
  useEffect(() => {
    const panel = heading.current?.closest('aside')
    if (!panel?.contains(document.activeElement)) heading.current?.focus()
    return () => (opener?.isConnected ? opener.focus() : document.querySelector<HTMLElement>('h1')?.focus())
  }, [opener])
  return (
    <aside
      className="panel"
      aria-label={title}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || event.defaultPrevented) return
        event.stopPropagation()
        onClose()
      }}
    >
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {title}
        </h2>
        <IconButton icon="close" label={text.close} onClick={onClose} />
      </header>
      <div className="panel-content">{children}</div>
    </aside>
  )
}
