/**
 * Confirmation of a destructive action. The button is enabled after a word, such as the id of the tenant, is typed. A click outside does not
 * close it, and `Enter` does nothing before.
 */
import { AlertDialog } from '@base-ui/react/alert-dialog'
import { type FormEvent, type ReactNode, useRef, useState } from 'react'
import type { Input, OperationName } from '../api/contract.ts'
import type { Problem } from '../data/problem.ts'
import { ApiCall } from './api-call.tsx'
import { Button } from './base/button.tsx'
import { ProblemView } from './base/problem.tsx'
import { text } from './base/text.ts'
import { layers } from './layers.ts'

export interface ConfirmProps<Name extends OperationName> {
  readonly title: string
  /** The effect, what it concerns, and until when it can be undone. */
  readonly children: ReactNode
  /** Must be typed; absent: no input. */
  readonly word?: string
  /** Text of the button: the verb. */
  readonly confirm: string
  readonly isDestructive?: boolean
  /** Why it cannot be confirmed now. */
  readonly reason?: string | undefined
  readonly isRunning?: boolean
  readonly problem?: Problem | null
  /** The call that the button sends. */
  readonly call?: { readonly name: Name; readonly input: Input<Name> }
  readonly onConfirm: () => void
  readonly onClose: () => void
}

export function Confirm<Name extends OperationName>({
  title,
  children,
  word,
  confirm,
  isDestructive = true,
  reason,
  isRunning = false,
  problem,
  call,
  onConfirm,
  onClose,
}: ConfirmProps<Name>) {
  const [typed, setTyped] = useState('')
  const field = useRef<HTMLInputElement>(null)
  const isConfirmed = reason === undefined && (word === undefined || typed.trim() === word)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (isConfirmed && !isRunning) onConfirm()
  }
  const [before, shownWord, after] = text.confirmWord(word ?? '')
  return (
    <AlertDialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <AlertDialog.Portal container={layers()}>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Viewport className="dialog-viewport">
          <AlertDialog.Popup className="dialog" initialFocus={word === undefined ? true : field}>
            <header>
              <AlertDialog.Title>{title}</AlertDialog.Title>
            </header>
            <AlertDialog.Description render={<div className="dialog-text" />}>{children}</AlertDialog.Description>
            <form onSubmit={submit}>
              {word !== undefined && (
                <label className="field">
                  <span className="label">
                    {before}
                    <code>{shownWord}</code>
                    {after}
                  </span>
                  <input
                    ref={field}
                    value={typed}
                    onChange={(event) => setTyped(event.target.value)}
                    autoComplete="off"
                    autoCapitalize="none"
                    spellCheck={false}
                  />
                </label>
              )}
              {problem && <ProblemView error={problem} isCompact />}
              {call && <ApiCall {...call} />}
              <footer>
                <Button onClick={onClose}>{text.cancel}</Button>
                <Button
                  type="submit"
                  variant={isDestructive ? 'danger' : 'primary'}
                  disabled={!isConfirmed}
                  reason={reason}
                  autoFocus={word === undefined && !isDestructive}
                  isRunning={isRunning}
                >
                  {confirm}
                </Button>
              </footer>
            </form>
          </AlertDialog.Popup>
        </AlertDialog.Viewport>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
