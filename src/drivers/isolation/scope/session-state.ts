/**
 * Which statements may leave something on a connection that a transaction's end does not take away: settings, locks, cursors,
 * prepared statements, temporary tables. Those that cannot go alone in one batch; all others run in a transaction, after which
 * the session is cleaned. A statement that is not recognised counts as one that may.
 *
 * A text is all that is looked at. What a function of the host's sets for the session when a plain SELECT calls it is not seen: it
 * stays until the connection runs a transaction. Role, search path and tenant are none of what can stay so, as every scope sets
 * them. The functions of PostgreSQL that run a text which they are given are known by name.
 */
import { LRUCache } from 'lru-cache'
import { leadingTokens } from '../../../tenants/handles/leading-tokens.ts'

const ROWS_ONLY = /^\s*(select|insert|update|delete|merge|with|values|table)\b/i

/** Session-wide settings and locks by function, other tenants' sequence values, SELECT .. INTO, and what hides such a name or runs a text. */
const KEEPS =
  /\b(set_config|pg_settings|setseed|pg_(try_)?advisory_lock(_shared)?|lastval|currval|dblink\w*|\w+_to_xml\w*|ts_stat|ts_rewrite)\b|\bu&"|(?<!\b(insert|merge)\s+)\binto\b/i

/** Longer texts are looked at each time: they are rare, or made by hand each time, and would be kept for nothing. */
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

/** Sent after the transaction of whatever may keep something. */
export const CLEAN = `set session authorization default; reset all; select pg_advisory_unlock_all(); close all;
  discard sequences; unlisten *`

/** The same through a pooler, where the session goes to others whatever we do with our connection. */
export const CLEAN_FOR_OTHERS = `${CLEAN}; deallocate all; discard temp`

/** What cannot be cleaned without losing our own prepared statements: the connection is replaced. */
const SPOILS = new Set(['PREPARE', 'DEALLOCATE', 'DEALLOCATE ALL', 'DISCARD', 'DISCARD ALL', 'DO', 'CALL', 'LOAD'])
/** Whoever has chosen a seed knows what random() answers next, and nothing takes a seed back. */
const seeds = (text: string): boolean =>
  /\bsetseed\b|\bu&"/i.test(text) || (/\bseed\b/i.test(text) && /\b(set|set_config|pg_settings)\b/i.test(text))

/** @param command of the statement's answer. */
export const spoils = (command: string, text: string): boolean =>
  SPOILS.has(command) || (!leavesNothing(text) && seeds(text))

/** Whether the statement ends the transaction it runs in. Through a pooler none may: another client would have the session before it is cleaned. */
export function endsTransaction(text: string): boolean {
  const [first = '', ...others] = leadingTokens(text, 3)
  if (first === 'rollback') return !others.includes('to') // a savepoint
  return (
    first === 'commit' || first === 'end' || first === 'abort' || (first === 'prepare' && others[0] === 'transaction')
  )
}
