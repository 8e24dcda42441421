/** Queues, circuits, placements and processes of the installation. */
import { Section } from '../../components/base/page.tsx'
import { ProblemView } from '../../components/base/problem.tsx'
import { Badge, Status } from '../../components/base/status.tsx'
import { formatNumber } from '../../components/base/text.ts'
import { Time } from '../../components/base/time.tsx'
import { SimpleTable } from '../../components/lists/simple-table.tsx'
import { Skeleton } from '../../components/lists/table.tsx'
import { useOperation } from '../../data/queries.ts'
import { href, tenantHref } from '../../routing/links.ts'
import { text } from './text.ts'

export function Queues() {
  const { data, error, refetch } = useOperation('queues.list', {})
  return (
    <Section title={text.queues}>
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {!data && !error && <Skeleton rows={3} />}
      {data?.data.length === 0 && <p className="faint">{text.noQueues}</p>}
      {data && data.data.length > 0 && (
        <SimpleTable
          label={text.queues}
          columns={[text.queue, text.tenant, text.waiting, text.active, text.delayed, text.failed, text.completed]}
          rows={data.data.map(({ queue, tenantId, waiting, active, delayed, failed, completed }) => ({
            key: `${queue} ${tenantId}`,
            cells: [queue, tenantId ?? '–', ...[waiting, active, delayed, failed, completed].map(formatNumber)],
          }))}
        />
      )}
    </Section>
  )
}

const TONES = { CLOSED: 'good', HALF_OPEN: 'warning', OPEN: 'bad' } as const

const Circuit = ({ state }: { state: keyof typeof TONES }) => (
  <Status state={state} tone={TONES[state]}>
    {text.circuitStates[state]}
  </Status>
)

export function Circuits() {
  const { data, error, refetch } = useOperation('circuits.list', {})
  const listed = data?.data.filter(({ kind }) => kind === 'tenant').length ?? 0
  return (
    <Section title={text.circuits}>
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {!data && !error && <Skeleton rows={2} />}
      {data?.source === 'process' && (
        <p className="notice" data-tone="warning">
          {text.circuitsOfProcess}
        </p>
      )}
      {data && (
        <SimpleTable
          label={text.circuits}
          columns={[text.placement, text.tenant, text.state, text.since, text.nextProbe]}
          rows={data.data.map(({ placement, tenantId, state, openedAt, nextProbeAt }) => ({
            key: `${placement} ${tenantId}`,
            cells: [
              placement,
              tenantId ? (
                <a key="tenant" href={tenantHref(tenantId)}>
                  {tenantId}
                </a>
              ) : (
                text.allTenants
              ),
              <Circuit key="state" state={state} />,
              openedAt ? <Time key="since" at={openedAt} /> : '–',
              nextProbeAt ? <Time key="probe" at={nextProbeAt} /> : '–',
            ],
          }))}
        />
      )}
      {data && data.openTenants > listed && <p className="faint after">{text.furtherCircuits(data.openTenants)}</p>}
    </Section>
  )
}

export function Placements() {
  const { data, error, refetch } = useOperation('placements.list', {})
  return (
    <Section title={text.placements}>
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {!data && !error && <Skeleton rows={2} />}
      {data && (
        <>
          <SimpleTable
            label={text.placements}
            columns={[text.placement, text.state, text.tenants, text.connections, text.circuit]}
            rows={data.data.map(({ name, isConfigured, tenants, connections, circuit, lostSince }) => ({
              key: name,
              cells: [
                name,
                lostSince ? (
                  <Status key="state" state="fail">
                    {text.lost} <Time at={lostSince} />
                  </Status>
                ) : (
                  <Status key="state" state={isConfigured ? 'ok' : 'warn'}>
                    {isConfigured ? text.configured : text.notConfigured}
                  </Status>
                ),
                <a key="tenants" href={href('/tenants', { placement: name })}>
                  {formatNumber(tenants)}
                </a>,
                connections ? text.connectionsOf(connections) : '–',
                <Circuit key="circuit" state={circuit.state} />,
              ],
            }))}
          />
          <p className="faint after">{text.driversOf(data.drivers)}</p>
        </>
      )}
    </Section>
  )
}

export function Processes() {
  const { data, error, refetch } = useOperation('processes.list', {})
  return (
    <Section title={text.processes}>
      {error && !data && <ProblemView error={error} onRetry={refetch} />}
      {!data && !error && <Skeleton rows={2} />}
      {data && (
        <SimpleTable
          label={text.processes}
          columns={[text.process, text.state, text.role, text.version, text.started, text.heartbeat, text.differences]}
          rows={data.data.map((process) => {
            const { id, name, isLive, isThis, role, version, startedAt, heartbeatAt, differences } = process
            const hasConflict = differences.some(({ isConflict }) => isConflict)
            return {
              key: id,
              cells: [
                <span key="name" className="lead-line">
                  {name}
                  {isThis && <Badge>{text.thisProcess}</Badge>}
                </span>,
                <Status key="state" state={isLive ? 'ok' : 'deleted'}>
                  {isLive ? text.live : text.ended}
                </Status>,
                role,
                version,
                <Time key="started" at={startedAt} />,
                <Time key="heartbeat" at={heartbeatAt} />,
                differences.length > 0 ? (
                  <Status
                    key="differences"
                    state={hasConflict ? 'fail' : 'warn'}
                    tone={hasConflict ? 'bad' : 'warning'}
                  >
                    {differences.map(({ setting }) => setting).join(', ')}
                  </Status>
                ) : (
                  '–'
                ),
              ],
            }
          })}
        />
      )}
    </Section>
  )
}
