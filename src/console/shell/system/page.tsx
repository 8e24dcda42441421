/** System: checks of the service, findings of the doctor on request, queues, dead letters, outbox, circuits, placements, processes. */
import { useState } from 'react'
import { Button } from '../../components/base/button.tsx'
import { Empty, Facts, PageHeader, Section } from '../../components/base/page.tsx'
import { ProblemView } from '../../components/base/problem.tsx'
import { Status } from '../../components/base/status.tsx'
import { SimpleTable } from '../../components/lists/simple-table.tsx'
import { Skeleton } from '../../components/lists/table.tsx'
import { useOperation } from '../../data/queries.ts'
import { isPermitted } from '../../data/session.ts'
import { tenantHref } from '../../routing/links.ts'
import { DeadLetters, FailedOutbox } from './failures.tsx'
import { Circuits, Placements, Processes, Queues } from './resources.tsx'
import { text } from './text.ts'

export default function System() {
  const { data: health, error, refetch } = useOperation('health.get', {})
  return (
    <>
      <PageHeader title={text.system} />
      {error && !health && <ProblemView error={error} onRetry={refetch} />}
      {health && (
        <>
          <div className="narrow">
            <Facts
              facts={{
                [text.health]: <Status state={health.status} />,
                [text.version]: health.version,
                [text.uptime]: text.duration(health.uptimeSeconds),
              }}
            />
          </div>
          <Section title={text.checks}>
            <SimpleTable
              label={text.checks}
              columns={[text.check, text.state, text.time, text.message]}
              rows={Object.entries(health.checks).map(([name, { status, durationMs, message }]) => ({
                key: name,
                cells: [name, <Status key="state" state={status} />, `${Math.round(durationMs)} ms`, message],
              }))}
            />
          </Section>
        </>
      )}
      {isPermitted('doctor.get') && <Doctor />}
      {isPermitted('queues.list') && <Queues />}
      {isPermitted('deadLetters.list') && <DeadLetters />}
      {isPermitted('outbox.list') && <FailedOutbox />}
      {isPermitted('circuits.list') && <Circuits />}
      {isPermitted('placements.list') && <Placements />}
      {isPermitted('processes.list') && <Processes />}
    </>
  )
}

function Doctor() {
  const [isRequested, setRequested] = useState(false)
  const { data, error, isFetching, refetch } = useOperation(
    'doctor.get',
    {},
    { enabled: isRequested, refetchInterval: false },
  )
  const run = () => (isRequested ? void refetch() : setRequested(true))
  return (
    <Section
      title={text.findings}
      actions={
        <Button onClick={run} isRunning={isFetching}>
          {text.runDoctor}
        </Button>
      }
    >
      {!isRequested && <p className="faint">{text.doctorText}</p>}
      {isFetching && !data && <Skeleton rows={3} />}
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {data?.checks.length === 0 && <Empty title={text.noFindings} />}
      {data && data.checks.length > 0 && (
        <ul className="findings">
          {data.checks.map(({ name, severity, code, message, remedy, tenantId }) => (
            <li key={`${name} ${code} ${tenantId} ${message}`}>
              <p className="lead-line">
                <Status state={severity} /> <code>{code}</code>
                {tenantId && <a href={tenantHref(tenantId)}>{tenantId}</a>}
              </p>
              <p>{message}</p>
              <p className="faint">{remedy}</p>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
