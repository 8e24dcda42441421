/**
 * What the doctor says of the servers that tenants are on: connections that run short, in this process and at the server, and
 * sessions that hold for long what others may wait for. The text of a statement may hold what is a tenant's: it is told only when
 * that is asked for, and then its beginning.
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
/** Of what there may be at most. */
const NEARLY = 0.9

/** @param longMs how long a statement, or a transaction that rests, may take before it is told */
export const serversDiagnosis = (longMs = LONG_MS): Diagnosis<Tenants> => ({
  name: 'servers',
  summary: 'Connections that run short; statements and transactions that take long',
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

/** Of this process. */
export function* poolFindings({ placement, max, busy, waiting }: ConnectionCount): Iterable<Finding> {
  if (max === undefined) return // what waits there waits for its own tenant
  const remedy =
    'See which tenant is loud (multitenancy_tenant_pool_connections and the log), and whether statements take long; else raise ' +
    'connections.max of the placement, as far as its server has room, or add processes.'
  if (waiting > 0) {
    yield {
      severity: 'warn',
      code: 'connections.waiting',
      message: `in this process ${waiting} ${waiting === 1 ? 'waits' : 'wait'} for a connection to "${placement}"; ${busy} of ${max} are in use`,
      remedy,
    }
  } else if (busy >= max * NEARLY) {
    yield {
      severity: 'info',
      code: 'connections.pool-nearly-full',
      message: `${busy} of the ${max} connections that this process may have to "${placement}" are in use; nobody waits yet`,
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
        .filter(({ database }) => database === null || owners.has(database)) // else of another installation there
        .map((session) => ({
          ...sessionFinding(placement, session, { isAtWork, tenantId: owners.get(session.database ?? '') }),
          identity: `${session.pid} ${session.since.toISOString()}`,
        })),
    ]
  } catch (error) {
    const finding = notExamined(`What the server of "${placement}" is doing`, error, log)
    return [{ ...finding, identity: finding.message }]
  }
}

export function serverFindings(placement: string, { connections, available }: ServerActivity): Finding[] {
  if (connections < available * NEARLY) return []
  return [
    {
      severity: connections < available ? 'warn' : 'error',
      code: 'connections.server-nearly-full',
      message: `the server of "${placement}" has ${connections} of the ${available} connections that it accepts`,
      remedy:
        'At the bound every new connection is refused, those of other programs too. See who has them (pg_stat_activity); then raise ' +
        'max_connections of the server, lower connections.max, or put a pooler before it: docs/pgbouncer.md.',
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
      ? 'A transfer or a migration run is at work, and may take this long: tenantry tenant:transfer:list, tenant:migrate:status.'
      : 'tenantry doctor --show-sql shows what it is. To end it, at the server: select pg_terminate_backend(its process).'
  return {
    severity,
    code: state === 'active' ? 'statements.long' : 'statements.idle-in-transaction',
    message: `${what} (${details.join(', ')})${sql === null ? '' : `: ${sql}`}`,
    remedy: state === 'active' ? end : `It keeps its locks, and the server from cleaning up, until it ends. ${end}`,
    ...(tenantId === undefined ? {} : { tenantId }),
  }
}
