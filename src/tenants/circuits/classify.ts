/**
 * What a failed call says of the two circuits above it: that of the server and that of the tenant's database. A call that
 * answers is a success of both.
 *
 * | failure                                                        | server  | tenant  |
 * | -------------------------------------------------------------- | ------- | ------- |
 * | the statement's own: any other SQLSTATE                        | success | success |
 * | nobody listens, no connection in time, it starts, it is full   | failure | –       |
 * | the server refuses the login at the start of a session         | failure | –       |
 * | – where the login is the tenant's own                          | success | failure |
 * | a file is damaged or missing, the disk fails (58*)             | success | failure |
 * | a session was lost (57P01, 57P02, 08003, 08006, a reset)       | failure | –       |
 * | – where the database is the tenant's own                       | –       | failure |
 * | the database is missing, closed or full                        | failure | –       |
 * | – where the database is the tenant's own                       | success | failure |
 * | not the server's: ours (refused, suspended), or of unknown kind | –       | –       |
 *
 * One tenant's database that is dropped, closed or ended by force loses that tenant's sessions, so a lost session is no word
 * about its server; when the server dies, the next connection is refused, and that is.
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
/** Of these SQLSTATEs, which statements raise too, those that PostgreSQL raises at the start of a session are about its database. */
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
