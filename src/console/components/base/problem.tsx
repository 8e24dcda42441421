/** Shows a rejected call: detail, code, request id, and a retry. */
import { useEffect, useState } from 'react'
import type { OperationName } from '../../api/contract.ts'
import { toProblem } from '../../data/problem.ts'
import { useSession } from '../../data/session.ts'
import { Button, Copyable } from './button.tsx'
import { Icon } from './icon.tsx'
import { Empty } from './page.tsx'
import { hintOf, text } from './text.ts'

interface ProblemViewProps {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
  /** One line, in a form or dialog. */
  readonly isCompact?: boolean
}

export function ProblemView({ error, onRetry, isCompact = false }: ProblemViewProps) {
  const problem = toProblem(error)
  const hint = hintOf(problem)
  return (
    <div className={isCompact ? 'problem compact' : 'problem'} role="alert">
      <Icon name="warning" />
      <div>
        <p className="problem-title">{problem.message}</p>
        {hint && <p>{hint}</p>}
        <p className="problem-facts">
          <code>{problem.code}</code>
          {problem.requestId && <Copyable value={problem.requestId} />}
        </p>
        {onRetry && <Retry seconds={problem.retryAfterSeconds} onRetry={onRetry} />}
      </div>
    </div>
  )
}

/** Counts `Retry-After` down, then retries. */
function Retry({ seconds, onRetry }: { seconds: number | undefined; onRetry: () => void }) {
  const [left, setLeft] = useState(seconds)
  useEffect(() => {
    if (left === undefined) return
    const timer = setTimeout(() => (left > 1 ? setLeft(left - 1) : onRetry()), 1_000)
    return () => clearTimeout(timer)
  }, [left, onRetry])
  return <Button onClick={onRetry}>{left === undefined ? text.retry : text.retryIn(left)}</Button>
}

/** In place of a screen that the session does not permit. */
export function Forbidden({ needs }: { needs: readonly OperationName[] }) {
  const { name, operations } = useSession()
  const missing = needs.filter((operation) => !(operation in operations))
  return (
    <>
      <title>{text.forbiddenTitle}</title>
      <Empty title={text.forbiddenTitle}>{text.forbidden(name, missing)}</Empty>
    </>
  )
}
