/**
 * Classifies a failed call for two circuits: that of the server and that of the tenant's database. A call with a
 * response is a success for both.
 *
 * | failure                                                          | server  | tenant  |
 * | ---------------------------------------------------------------- | ------- | ------- |
 * | of the statement: any other SQLSTATE                             | success | success |
 * | no listener, connection timeout, server starting, server full    | failure | –       |
 * | the server rejects the login at the start of a session           | failure | –       |
 * | – if the login belongs to the tenant                             | success | failure |
 * | a file is damaged or missing, the disk fails (58*)               | success | failure |
 * | a session was lost (57P01, 57P02, 08003, 08006, a reset)         | failure | –       |
 * | – if the database belongs to the tenant                          | –       | failure |
 * | the database is missing, closed or full                          | failure | –       |
 * | – if the database belongs to the tenant                          | success | failure |
 * | not of the server: own errors (rejected, suspended), unknown     | –       | –       |
 *
 * A drop, closure or forced end of one tenant's database loses only sessions of that tenant, so a lost session proves
 * nothing about its server. If the server is down, the next connection is refused, which does.
 */

import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import type { Outcome } from '../../kernel/resilience/circuit.ts'
import type { Capabilities } from '../isolation/driver.ts'
import { OwnLoginRejected } from '../isolation/own-logins.ts'

export type Reach = Capabilities['reach']

export interface Outcomes {
  readonly server: Outcome
  readonly tenant: Outcome
}

const ANSWERED: Outcomes = { server: 'success', tenant: 'success' }
const SERVER_FAILED: Outcomes = { server: 'failure', tenant: 'neither' }
const TENANT_FAILED: Outcomes = { server: 'success', tenant: 'failure' }
const SESSION_LOST: Outcomes = { server: 'neither', tenant: 'failure' }
const UNKNOWN: Outcomes = { server: 'neither', tenant: 'neither' }

const DAMAGED = /^58/
/** At the start of a session, where they are FATAL. */
const LOGIN_REFUSED = new Set(['28P01', '28000'])
const DROPPED = '57P04'
/** Statements can raise these SQLSTATEs, too; at the start of a session they concern the database. */
const MISSING_CLOSED_OR_FULL = new Set(['3D000', '55000', '53300'])
const WHERE_SESSIONS_START = new Set(['InitPostgres', 'CheckMyDatabase'])
const LOST = new Set(['57P01', '57P02', '57P05', '08003', '08006', 'ECONNRESET', 'EPIPE'])
const LOST_MESSAGES =
  /^(Connection terminated( unexpectedly)?$|Client has encountered a connection error|Client was closed)/

export function outcomesOf(error: unknown, reach: Reach): Outcomes {
  if (error instanceof TenancyError) {
    return DependencyUnavailable.matches(error) && error.cause ? outcomesOf(error.cause, reach) : UNKNOWN
  }
  if (error instanceof AggregateError) {
    const all = error.errors.map((one) => outcomesOf(one, reach))
    return all.find(({ server }) => server === 'failure') ?? all.find(({ tenant }) => tenant === 'failure') ?? UNKNOWN
  }
  if (error instanceof OwnLoginRejected) return TENANT_FAILED
  if (!(error instanceof Error)) return UNKNOWN
  const { code = '', routine = '', severity } = error as { code?: string; routine?: string; severity?: string }
  if (LOGIN_REFUSED.has(code) && severity === 'FATAL') return SERVER_FAILED
  const isOwn = reach === 'own database'
  if (code === DROPPED || (MISSING_CLOSED_OR_FULL.has(code) && WHERE_SESSIONS_START.has(routine))) {
    return isOwn ? TENANT_FAILED : SERVER_FAILED
  }
  if (!isDatabaseUnavailable(error)) return sqlState(error) ? ANSWERED : UNKNOWN
  if (DAMAGED.test(code)) return TENANT_FAILED
  return isOwn && (LOST.has(code) || LOST_MESSAGES.test(error.message)) ? SESSION_LOST : SERVER_FAILED
}
