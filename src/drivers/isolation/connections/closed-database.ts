/** What statements meet at a database that lets the tenant login in no more: it is closed, or not there at all. */
import { sqlState } from '../../../kernel/database/database.ts'
import { StorageFenced } from '../../../tenants/isolation/driver.ts'

/** No right to connect, no connections allowed (or a drop that was interrupted), no such database. */
const CLOSED = new Set(['42501', '55000', '3D000'])
/** Statements raise these states too; only where PostgreSQL checks who may connect to what do they mean this. */
const WHERE_CONNECTIONS_ARE_CHECKED = new Set(['CheckMyDatabase', 'InitPostgres'])

/** @param error of connecting to a database that belongs to one tenant. */
export function closedOr(error: unknown): unknown {
  const { routine } = error as { routine?: string }
  const isClosed = CLOSED.has(sqlState(error) ?? '') && WHERE_CONNECTIONS_ARE_CHECKED.has(routine ?? '')
  return isClosed ? StorageFenced('The database of the tenant is closed.', { cause: error }) : error
}

const LOST = /^(08...|57P0[15]|ECONNRESET|EPIPE)$/
const LOST_MESSAGES = /^(Connection terminated|Client has encountered a connection error|Client was closed)/

/** Whether a session was lost that had begun: a fence ends them, whatever they are doing. Restarts and networks do so too. */
export function isSessionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: string }
  return LOST.test(code ?? '') || LOST_MESSAGES.test(error.message)
}
