/**
 * Which statements may leave something on a connection that a transaction's end does not take away: settings, locks, cursors,
 * prepared statements, temporary tables. Those that cannot go alone in one batch; all others run in a transaction, after which
 * the session is cleaned. A statement that is not recognised counts as one that may.
 */
import { LRUCache } from 'lru-cache'

const ROWS_ONLY = /^\s*(select|insert|update|delete|merge|with|values|table)\b/i

/** Session-wide settings and locks by function, other tenants' sequence values, and SELECT .. INTO. */
const KEEPS =
  /\b(set_config|pg_(try_)?advisory_lock(_shared)?|lastval|currval|dblink\w*)\s*\(|(?<!\b(insert|merge)\s+)\binto\b/i

const known = new LRUCache<string, boolean>({ max: 2_000 })

/** Whether the statement can only read and write rows. */
export function leavesNothing(text: string): boolean {
  const kept = known.get(text)
  if (kept !== undefined) return kept
  const answer = ROWS_ONLY.test(text) && !KEEPS.test(text)
  known.set(text, answer)
  return answer
}

/** Sent after the transaction of whatever may keep something. */
export const CLEAN = `set session authorization default; reset all; select pg_advisory_unlock_all(); close all;
  discard sequences; unlisten *`

/** What cannot be cleaned without losing our own prepared statements: the connection is replaced. */
const SPOILS = new Set(['PREPARE', 'DEALLOCATE', 'DEALLOCATE ALL', 'DISCARD', 'DISCARD ALL', 'DO', 'CALL', 'LOAD'])

/** @param command of the statement's answer. */
export const spoils = (command: string): boolean => SPOILS.has(command)
