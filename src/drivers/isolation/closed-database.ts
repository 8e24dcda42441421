/** What a connection meets at a database that lets the tenant login in no more: it is closed, or not there at all. */
import { sqlState } from '../../kernel/database.ts'
import { StorageFenced } from '../../tenants/isolation.ts'

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
