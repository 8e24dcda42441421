/** The sign-in form: a page without a session, or a dialog over the page after the session has ended. */
import { type FormEvent, useState } from 'react'
import { Button } from '../components/base/button.tsx'
import { Problem, toProblem } from '../data/problem.ts'
import { signIn } from '../data/session.ts'
import { settings } from '../data/settings.ts'
import { Mark } from './mark.tsx'
import { text } from './text.ts'

export function SignInForm({ problem: initial, onDone }: { problem?: Problem | undefined; onDone?: () => void }) {
  const [problem, setProblem] = useState(initial)
  const [isRunning, setRunning] = useState(false)
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const field = event.currentTarget.elements.namedItem('token') as HTMLInputElement
    const token = field.value.trim()
    if (isRunning) return
    if (!token) {
      setProblem(new Problem(0, { code: 'E_NO_TOKEN', detail: text.noToken }))
      field.focus()
      return
    }
    setRunning(true)
    try {
      await signIn({ token })
      field.value = ''
      onDone?.()
    } catch (error) {
      setProblem(toProblem(error))
      field.focus()
      field.select()
    } finally {
      setRunning(false)
    }
  }
  return (
    <form className="form" onSubmit={send} noValidate>
      <div className="field">
        <label className="label" htmlFor="token">
          {text.token}
        </label>
        <input
          id="token"
          name="token"
          type="password"
          autoComplete="current-password"
          autoCapitalize="none"
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: the only field of the page
          autoFocus
          aria-invalid={problem ? true : undefined}
          aria-describedby="sign-in-error"
        />
        <p className="field-error" id="sign-in-error" role="alert">
          {problem?.message}
        </p>
      </div>
      <Button type="submit" variant="primary" isRunning={isRunning}>
        {isRunning ? text.signingIn : text.signIn}
      </Button>
    </form>
  )
}

export const SignInPage = ({ problem }: { problem?: Problem | undefined }) => (
  <main className="sign-in">
    <title>{`${text.signIn} · ${settings.name}`}</title>
    <div className="sign-in-card">
      <Mark size={40} />
      <h1>{text.signInTo(settings.name)}</h1>
      <p className="lead">{text.signInLead}</p>
      <SignInForm problem={problem} />
      <p className="note">{text.tokenNote}</p>
    </div>
  </main>
)
