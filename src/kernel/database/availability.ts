/** Classifies errors of PostgreSQL: of an unavailable server, or of a statement. */
import pg from 'pg'
import { isTlsFailure } from './tls-failure.ts'

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EAI_AGAIN',
])
/** Files that are damaged or missing. */
const DAMAGED_STATES = /^58/
/** States of an ended session. For a statement they mean another error, such as an unreachable server of a foreign table. */
const ENDING_STATES = /^08|^57P0[1-5]$|^53300$/
/** Message of a statement that exceeded its own timeout. */
export const QUERY_TIMEOUT = 'Query read timeout'
const UNREACHABLE_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed)/

/** Whether the server failed, not the statement: it does not listen, restarts, has no free connection, or failed at TLS. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isDatabaseUnavailable)
  if (!(error instanceof Error)) return false
  const { code, severity } = error as { code?: string; severity?: string }
  if (code && (UNREACHABLE.has(code) || DAMAGED_STATES.test(code))) return true
  if (code && ENDING_STATES.test(code)) return severity !== 'ERROR'
  return isTlsFailure(error) || UNREACHABLE_MESSAGES.test(error.message)
}

/** Whether the connection is lost. A full pool, or an error of the server's disk, is none. */
export function isConnectionLost(error: unknown): boolean {
  if (!isDatabaseUnavailable(error)) return false
  const { code, message } = error as { code?: string; message: string }
  return !(code && DAMAGED_STATES.test(code)) && !message.startsWith('timeout exceeded when trying to connect')
}

/** SQLSTATE of a PostgreSQL error, else undefined. */
export const sqlState = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined

/** The name of the violated constraint, if `error` has one. */
export const violatedConstraint = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError && error.code?.startsWith('23') ? error.constraint : undefined
