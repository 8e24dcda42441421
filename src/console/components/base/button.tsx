/** Buttons, links that look like buttons, and values that a click copies. */
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useState } from 'react'
import { Icon } from './icon.tsx'
import { text } from './text.ts'

export type Variant = 'primary' | 'plain' | 'quiet' | 'danger'

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly variant?: Variant
  readonly icon?: string
  readonly isRunning?: boolean
  /** A single key that clicks it. */
  readonly shortcut?: string
  /** Why the button is disabled: shown as its description. */
  readonly reason?: string | undefined
}

export function Button({ variant = 'plain', icon, isRunning, reason, shortcut, children, ...props }: ButtonProps) {
  const isDisabled = props.disabled || isRunning || reason !== undefined
  return (
    <button
      type="button"
      {...props}
      className={`button ${props.className ?? ''}`}
      data-variant={variant}
      disabled={undefined}
      aria-disabled={isDisabled || undefined}
      aria-busy={isRunning || undefined}
      data-key={shortcut}
      title={reason ?? props.title}
      onClick={isDisabled ? (event) => event.preventDefault() : props.onClick}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

export const LinkButton = ({
  href,
  variant = 'plain',
  icon,
  children,
}: {
  href: string
  variant?: Variant
  icon?: string
  children: ReactNode
}) => (
  <a className="button" data-variant={variant} href={href}>
    {icon && <Icon name={icon} />}
    {children}
  </a>
)

/** A button with an icon only. */
export const IconButton = ({
  icon,
  label,
  ...props
}: ButtonHTMLAttributes<HTMLButtonElement> & { icon: string; label: string }) => (
  <button type="button" {...props} className={`icon-button ${props.className ?? ''}`} aria-label={label} title={label}>
    <Icon name={icon} />
  </button>
)

/** A value, such as an id, that a click copies. */
export function Copyable({ value, children }: { value: string; children?: ReactNode }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return
    const timer = setTimeout(() => setCopied(false), 1_500)
    return () => clearTimeout(timer)
  }, [isCopied])
  return (
    <button
      type="button"
      className="copyable"
      title={text.copyValue(value)}
      onClick={() => copy(value).then(() => setCopied(true))}
    >
      {children ?? <code>{value}</code>}
      <Icon name={isCopied ? 'check' : 'copy'} size={13} />
      <span className="hidden" role="status">
        {isCopied ? text.copied : ''}
      </span>
    </button>
  )
}

/** The clipboard exists only in secure contexts; elsewhere a selected field is copied. */
export async function copy(value: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(value)
  const field = document.createElement('textarea')
  field.value = value
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}
