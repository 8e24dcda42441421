/** System: checks of the service, and findings of the doctor on request. */
import { useState } from 'react'
import { Button } from '../components/base/button.tsx'
import { Empty, Facts, PageHeader, Section } from '../components/base/page.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { Status } from '../components/base/status.tsx'
import { Skeleton } from '../components/table.tsx'
import { useOperation } from '../data/queries.ts'
import { isPermitted } from '../data/session.ts'
import { text } from './text.ts'

export default function System() {
  const { data: health, error, refetch } = useOperation('health.get', {})
  return (
    <>
      <PageHeader title={text.system} />
      {error && !health && <ProblemView error={error} onRetry={refetch} />}
      {health && (
        <>
          <Facts
            facts={{
              [text.health]: <Status state={health.status} />,
              [text.version]: health.version,
              [text.uptime]: duration(health.uptimeSeconds),
            }}
          />
          <Section title={text.checks}>
            <table className="simple">
              <thead>
                <tr>
                  <th scope="col">{text.check}</th>
                  <th scope="col">{text.state}</th>
                  <th scope="col">{text.duration}</th>
                  <th scope="col">{text.message}</th>
                </tr>
              </thead>
              <tbody>
                {Object.entries(health.checks).map(([name, { status, durationMs, message }]) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td>
                      <Status state={status} />
                    </td>
                    <td>{Math.round(durationMs)} ms</td>
                    <td>{message}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Section>
        </>
      )}
      {isPermitted('doctor.get') && <Doctor />}
    </>
  )
}

const duration = (seconds: number): string => {
  const units = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ] as const
  const [size, name] = units.find(([size]) => seconds >= size) ?? [1, 's']
  return `${Math.floor(seconds / size)} ${name}`
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
      {isFetching && !data && <Skeleton rows={3} />}
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {data?.checks.length === 0 && <Empty title={text.noFindings} />}
      {data && data.checks.length > 0 && (
        <ul className="findings">
          {data.checks.map(({ name, severity, code, message, remedy, tenantId }) => (
            <li key={`${name} ${code} ${tenantId} ${message}`}>
              <Status state={severity} /> <code>{code}</code>
              <p>{message}</p>
              <p className="faint">{remedy}</p>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
