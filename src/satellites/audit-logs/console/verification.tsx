/** Verifies the seals of the audit log, and shows the result on the page. A verification ends when its page is left. */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { call } from '../../../console/data/call.ts'
import { href } from '../../../console/routing/links.ts'
import { text } from './text.ts'

type Verified = Result<'auditLogs.verify'>

export function Verification({ tenantId, children }: { tenantId: string | undefined; children?: ReactNode }) {
  const [state, setState] = useState<{ isRunning?: boolean; error?: unknown; result?: Verified }>({})
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const verify = async () => {
    running.current = new AbortController()
    const { signal } = running.current
    setState({ isRunning: true })
    try {
      setState({ result: await call('auditLogs.verify', { query: { tenantId } }, { signal }) })
    } catch (error) {
      if (!signal.aborted) setState({ error })
    }
  }
  const { isRunning = false, error, result } = state
  return (
    <div className="verification">
      <div className="section-actions">
        <Button icon="check" isRunning={isRunning} onClick={verify}>
          {text.verify}
        </Button>
        {children}
      </div>
      <div role="status">
        {isRunning && <p className="faint">{text.verifying}</p>}
        {result && <Verdict result={result} />}
      </div>
      {error !== undefined && <ProblemView error={error} onRetry={verify} />}
    </div>
  )
}

function Verdict({ result: { ok, checked, unsealed, broken } }: { result: Verified }) {
  const { tenant, entry, reason } = text.brokenColumns
  return (
    <div className="notice" data-tone={ok ? 'good' : 'bad'}>
      <p>
        <strong>{!ok ? text.broken(broken.length) : checked > 0 ? text.intact(checked) : text.nothingSealed}</strong>
        {unsealed > 0 && (checked > 0 || !ok) && <> {text.unsealedCount(unsealed)}</>}
      </p>
      {broken.length > 0 && (
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{tenant}</th>
              <th scope="col">{entry}</th>
              <th scope="col">{reason}</th>
            </tr>
          </thead>
          <tbody>
            {broken.map(({ tenantId, entryId, reason }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: an entry may have several problems
              <tr key={index}>
                <td>{tenantId ?? '–'}</td>
                <td>{entryId ? <a href={href('/audit', { open: entryId })}>{entryId}</a> : '–'}</td>
                <td>{reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  )
}
