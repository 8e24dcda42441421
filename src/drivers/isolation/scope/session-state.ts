/**
 * Recognises statements that may leave state on a connection after the transaction: settings, locks, cursors, prepared
 * statements, temporary tables. All others can be sent in one batch; these run in a transaction, after which the
 * session is cleaned. An unrecognised statement counts as one that leaves state.
 *
 * Only the text is examined. State that a host's function sets for the session, called by a plain SELECT, is not seen:
 * it stays until the connection runs a transaction. Role, search path and tenant cannot stay this way, as every scope
 * sets them. PostgreSQL's functions that run a given text are known by name.
 */
import { LRUCache } from 'lru-cache'
import { leadingTokens } from '../../../tenants/handles/leading-tokens.ts'

const ROWS_ONLY = /^\s*(select|insert|update|delete|merge|with|values|table)\b/i

/**
 * Functions for session-wide settings and locks, sequence values, SELECT .. INTO, and constructs that hide such a name
 * or run a text.
 */
const KEEPS =
  /\b(set_config|pg_settings|setseed|pg_(try_)?advisory_lock(_shared)?|lastval|currval|dblink\w*|\w+_to_xml\w*|ts_stat|ts_rewrite)\b|\bu&"|(?<!\b(insert|merge)\s+)\binto\b/i

/** Longer texts are examined each time and not cached: they are rare or generated for each call. */
export const LONGEST_KEPT_TEXT = 4_096

const known = new LRUCache<string, boolean>({ max: 2_000 })

/** Whether the statement can only read and write rows. */
export function leavesNothing(text: string): boolean {
  const kept = known.get(text)
  if (kept !== undefined) return kept
  const result = ROWS_ONLY.test(text) && !KEEPS.test(text)
  if (text.length <= LONGEST_KEPT_TEXT) known.set(text, result)
  return result
}

/** Sent after the transaction of a statement that may leave state. */
export const CLEAN = `set session authorization default; reset all; select pg_advisory_unlock_all(); close all;
  discard sequences; unlisten *`

/** The same through a pooler, where other clients get the session even if the connection is closed. */
export const CLEAN_FOR_OTHERS = `${CLEAN}; deallocate all; discard temp`

/** Statements after which cleaning would also remove Tenantry's prepared statements: the connection is replaced. */
const SPOILS = new Set(['PREPARE', 'DEALLOCATE', 'DEALLOCATE ALL', 'DISCARD', 'DISCARD ALL', 'DO', 'CALL', 'LOAD'])
/** A caller that sets a seed can predict the next results of random(), and no statement resets a seed. */
const seeds = (text: string): boolean =>
  /\bsetseed\b|\bu&"/i.test(text) || (/\bseed\b/i.test(text) && /\b(set|set_config|pg_settings)\b/i.test(text))

/** @param command from the response to the statement */
export const spoils = (command: string, text: string): boolean =>
  SPOILS.has(command) || (!leavesNothing(text) && seeds(text))

/**
 * Whether the statement ends its transaction. Rejected through a pooler: another client would get the session before it
 * is cleaned.
 */
export function endsTransaction(text: string): boolean {
  const [first = '', ...others] = leadingTokens(text, 3)
  if (first === 'rollback') return !others.includes('to') // a savepoint
  return (
    first === 'commit' || first === 'end' || first === 'abort' || (first === 'prepare' && others[0] === 'transaction')
  )
}
