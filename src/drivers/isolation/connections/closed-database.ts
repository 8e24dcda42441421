/** Recognizes errors of a database that is closed to the tenant login, or does not exist. */
import { sqlState } from '../../../kernel/database/database.ts'
import { StorageFenced } from '../../../tenants/isolation/driver.ts'

/** No right to connect; no connections allowed, or an interrupted drop; no such database. */
const CLOSED = new Set(['42501', '55000', '3D000'])
/**
 * Routines of PostgreSQL that check a connection. Statements raise the same states from other routines, with another
 * meaning.
 */
const WHERE_CONNECTIONS_ARE_CHECKED = new Set(['CheckMyDatabase', 'InitPostgres'])

/** @param error of a connection attempt to a database that belongs to one tenant */
export function closedOr(error: unknown): unknown {
  const { routine } = error as { routine?: string }
  const isClosed = CLOSED.has(sqlState(error) ?? '') && WHERE_CONNECTIONS_ARE_CHECKED.has(routine ?? '')
  return isClosed ? StorageFenced('The database of the tenant is closed.', { cause: error }) : error
}

const LOST = /^(08...|57P0[15]|ECONNRESET|EPIPE)$/
const LOST_MESSAGES = /^(Connection terminated|Client has encountered a connection error|Client was closed)/

/** Whether an established session was lost: by a fence, which ends all sessions, or by a restart or the network. */
export function isSessionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: string }
  return LOST.test(code ?? '') || LOST_MESSAGES.test(error.message)
}
