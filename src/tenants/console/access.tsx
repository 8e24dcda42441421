/** Whether requests of a tenant are admitted: one line, or the failed checks with their cause and remedy. */
import { useState } from 'react'
import type { Result } from '../../console/api/contract.ts'
import { startAction } from '../../console/components/actions.tsx'
import { Button, LinkButton } from '../../console/components/base/button.tsx'
import { ProblemView } from '../../console/components/base/problem.tsx'
import { Status, type Tone } from '../../console/components/base/status.tsx'
import { Time } from '../../console/components/base/time.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { referenceHref } from '../../console/routing/reference.ts'
import { actionsOf } from '../../console/routing/registry.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

type Check = Result<'tenants.explain'>['checks'][number]

export function Access({ tenant }: { tenant: Tenant }) {
  const { data, error, refetch } = useOperation('tenants.explain', { params: { id: tenant.id } })
  const [isOpen, setOpen] = useState(false)
  if (error && !data) return <ProblemView error={error} onRetry={refetch} isCompact />
  if (data?.tenantId !== tenant.id) return <p className="access" aria-hidden="true" />
  const failed = data.checks.filter(({ passed }) => passed === false)
  const { status, code } = data.response
  const tone: Tone = status !== null ? 'bad' : failed.length > 0 ? 'warning' : 'good'
  return (
    <section className="access" data-tone={tone} aria-label={text.access}>
      <header>
        <Status state="access" tone={tone}>
          {status === null ? text.admitted(failed.length) : text.rejected(status, code ?? '')}
        </Status>
        <Button variant="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {text.checks(data.checks.length)}
        </Button>
      </header>
      {failed.map((check) => (
        <Failure key={check.check} check={check} tenant={tenant} />
      ))}
      {isOpen && (
        <ul className="checks">
          {data.checks.map(({ check, passed, message }) => (
            <li key={check}>
              <Status state={check} tone={passed === null ? 'neutral' : passed ? 'good' : 'bad'}>
                {text.checkNames[check] ?? check}
                <span className="hidden">: {passed === null ? text.unknown : passed ? text.passed : text.failed}</span>
              </Status>
              <span className="faint">{message}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Failure({ check: { check, message, since, by, code, remedy }, tenant }: { check: Check; tenant: Tenant }) {
  const action = remedy && actionsOf('tenant', tenant).find(({ needs }) => needs[0] === remedy.operation)
  const link = remedy && !action ? referenceHref(remedy) : undefined
  return (
    <div className="failure">
      <div>
        <p>
          <strong>{text.checkNames[check] ?? check}.</strong> {message}
        </p>
        <p className="faint">
          {since && (
            <>
              {text.since} <Time at={since} />
              {by && ' · '}
            </>
          )}
          {by && (
            <>
              {text.changedBy(by.actor ?? text.unknown)} (<code>{by.action}</code>)
            </>
          )}
          {code && (
            <>
              {(since || by) && ' · '}
              <code>{code}</code>
            </>
          )}
        </p>
      </div>
      {action && (
        <Button variant="primary" onClick={() => startAction(action, tenant)}>
          {action.title}
        </Button>
      )}
      {link && <LinkButton href={link}>{text.remedy}</LinkButton>}
    </div>
  )
}
