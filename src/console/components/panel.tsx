/** A panel next to the content, which the address opens: `?open=`. `Esc` closes it, and the focus returns. */
import { type ReactNode, useEffect, useRef } from 'react'
import { IconButton } from './base/button.tsx'
import { text } from './base/text.ts'

interface PanelProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
}

export function Panel({ title, onClose, children }: PanelProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    const opener = document.activeElement as HTMLElement | null
    heading.current?.focus()
    return () => (opener?.isConnected ? opener.focus() : document.querySelector<HTMLElement>('h1')?.focus())
  }, [])
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
