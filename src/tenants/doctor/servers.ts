/**
 * Diagnoses of the servers of tenants: scarce connections, in this process and at the server, and long sessions that
 * may block others. The text of a statement may contain data of a tenant: its beginning is reported only on request.
 */
import {
  type Diagnosis,
  type Examination,
  type Finding,
  notExamined,
  type Severity,
} from '../../kernel/doctor/doctor.ts'
import type { ConnectionCount } from '../isolation/driver.ts'
import type { LongSession, ServerActivity } from '../isolation/server-activity.ts'
import type { StorageReconciliation } from '../lifecycle/storage-reconciliation.ts'
import type { Tenants } from '../tenants.ts'

const LONG_MS = 5 * 60_000
/** Fraction of the maximum. */
const NEARLY = 0.9

/** @param longMs duration of a statement or an idle transaction from which on it is reported */
export const serversDiagnosis = (longMs = LONG_MS): Diagnosis<Tenants> => ({
  name: 'servers',
  summary: 'Scarce connections; long statements and transactions',
  async *examine({ reconciliation }: Tenants, examination: Examination): AsyncIterable<Finding> {
    for (const count of reconciliation.connections()) yield* poolFindings(count)
    const reported = new Set<string>()
    for (const findings of await Promise.all(
      reconciliation.placements.map((placement) => ofServer(reconciliation, placement, longMs, examination)),
    )) {
      for (const { identity, ...finding } of findings) {
        if (!reported.has(identity)) yield finding // two placements may be one server
        reported.add(identity)
      }
    }
  },
})

/** Findings about the pool of this process. */
export function* poolFindings({ placement, max, busy, waiting }: ConnectionCount): Iterable<Finding> {
  if (max === undefined) return // the statement waits for its own tenant's share
  const remedy =
    'Find the busiest tenant (multitenancy_tenant_pool_connections and the log), and check for long statements. Otherwise, raise ' +
    'connections.max of the placement, as far as its server has room, or add processes.'
  if (waiting > 0) {
    yield {
      severity: 'warn',
      code: 'connections.waiting',
      message: `in this process ${waiting} ${waiting === 1 ? 'statement waits' : 'statements wait'} for a connection to "${placement}"; ${busy} of ${max} are in use`,
      remedy,
    }
  } else if (busy >= max * NEARLY) {
    yield {
      severity: 'info',
      code: 'connections.pool-nearly-full',
      message: `${busy} of the ${max} connections of this process to "${placement}" are in use; no statement waits yet`,
      remedy,
    }
  }
}

type OnServer = Finding & { readonly identity: string }

async function ofServer(
  reconciliation: StorageReconciliation,
  placement: string,
  longMs: number,
  { showsSql = false, log }: Examination,
): Promise<OnServer[]> {
  try {
    const driver = reconciliation.drivers.find(({ activity }) => activity)
    const activity = await driver?.activity?.(placement, { longMs, showsSql })
    if (!activity) return []
    const inTenants = activity.sessions.flatMap(({ database }) => database ?? [])
    const owners = await reconciliation.ownersOf(placement, inTenants)
    const isAtWork = activity.sessions.some(({ isUpkeep }) => isUpkeep) && (await reconciliation.isAtWork())
    return [
      ...serverFindings(placement, activity).map((finding) => ({ ...finding, identity: finding.message })),
      ...activity.sessions
        .filter(({ database }) => database === null || owners.has(database)) // otherwise, it belongs to another installation on the server
        .map((session) => ({
          ...sessionFinding(placement, session, { isAtWork, tenantId: owners.get(session.database ?? '') }),
          identity: `${session.pid} ${session.since.toISOString()}`,
        })),
    ]
  } catch (error) {
    const finding = notExamined(`The activity of the server of "${placement}"`, error, log)
    return [{ ...finding, identity: finding.message }]
  }
}

export function serverFindings(placement: string, { connections, available }: ServerActivity): Finding[] {
  if (connections < available * NEARLY) return []
  return [
    {
      severity: connections < available ? 'warn' : 'error',
      code: 'connections.server-nearly-full',
      message: `the server of "${placement}" has ${connections} of its ${available} connections in use`,
      remedy:
        'At the limit, every new connection is refused, including those of other programs. Find the clients (pg_stat_activity), then raise ' +
        'max_connections of the server, lower connections.max, or use a pooler: docs/pgbouncer.md.',
    },
  ]
}

/** @param isAtWork whether storage is being copied or migrated */
export function sessionFinding(
  placement: string,
  { pid, role, application, database, state, since, waitsFor, isUpkeep, sql }: LongSession,
  { isAtWork, tenantId }: { readonly isAtWork: boolean; readonly tenantId?: string | undefined },
): Finding {
  const severity: Severity = isUpkeep && isAtWork ? 'info' : 'warn'
  const details = [
    `process ${pid}`,
    ...(application ? [application] : []),
    ...(database === null ? [] : [`database ${database}`]),
    state,
    ...(state === 'active' && waitsFor !== null ? [`waits for ${waitsFor}`] : []),
  ]
  const who = `of "${role}" on "${placement}"`
  const what =
    state === 'active'
      ? `a statement ${who} has been running since ${since.toISOString()}`
      : `a transaction ${who} has been idle since ${since.toISOString()}`
  const end =
    severity === 'info'
      ? 'A transfer or a migration run is active and can take this long: tenantry tenant:transfer:list, tenant:migrate:status.'
      : 'tenantry doctor --show-sql shows the statement. To terminate it on the server: select pg_terminate_backend(<process>).'
  return {
    severity,
    code: state === 'active' ? 'statements.long' : 'statements.idle-in-transaction',
    message: `${what} (${details.join(', ')})${sql === null ? '' : `: ${sql}`}`,
    remedy:
      state === 'active' ? end : `It keeps its locks, and prevents the server from vacuuming, until it ends. ${end}`,
    ...(tenantId === undefined ? {} : { tenantId }),
  }
}
