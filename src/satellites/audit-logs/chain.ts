/**
 * Chains of seals: whoever changes, removes, adds or reorders entries behind the triggers is found out.
 *
 * Each tenant's entries are a chain, in the order in which they were sealed. A seal is an HMAC over its place in the chain, the seal
 * before it, and which entry it is, of when, and what that says, as a digest: so it can be checked without its entry, too, and stands
 * for everything before it. An entry has an HMAC of its own from the moment when it was recorded, and is not sealed without, unless it is
 * from before there were seals (seal-key-store.ts). The key is no part of the database: it is kept there under the application key, and a
 * superuser of the database alone can make neither.
 *
 * An entry keeps its HMAC, so whoever takes a chain back, and removes an entry, could have the sealer seal the rest anew. So all seals
 * that were ever made are counted, under an HMAC: there must be as many as all chains are long.
 *
 * Where a chain ends has an HMAC, too: what is gone from there is missed by who verifies one tenant alone, unless somebody puts back a
 * whole head that was there before. That one is known to the count only.
 *
 * What cannot be shown: that an entry was removed in the minute before it was sealed, as nothing else knows of it until then; and that
 * all of this, the count included, was taken back to an earlier state that somebody had kept. Who keeps the hash of an entry elsewhere
 * can ask whether it is still there.
 */
import { createHash } from 'node:crypto'
import { equalInConstantTime } from '../../kernel/crypto/crypto.ts'
import { COLUMNS } from './columns.ts'
import { type MacKey, macOf } from './mac.ts'
import { isInOurTime } from './tables.ts'

/** Of a chain's first entry. */
export const NO_HASH = ''

/**
 * All of an entry as one text, by functions of PostgreSQL's own alone: what is defined in the database can be changed there.
 * @param entry alias of `audit_entries`
 */
export const textOf = (entry: string): string =>
  `pg_catalog.jsonb_build_array(${COLUMNS.map((column) =>
    column === 'created_at'
      ? `(extract(epoch from ${entry}.${column}) operator(pg_catalog.*) 1000)::bigint`
      : `${entry}.${column}`,
  ).join(', ')})::text`

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

export interface Link {
  readonly tenantId: string
  readonly seq: number
  /** Of the one before. */
  readonly before: string
  readonly entryId: string
  readonly createdAt: Date
  readonly digest: string
}

/** Lowercase hex. */
export const sealOf = (key: MacKey, { tenantId, seq, before, entryId, createdAt, digest }: Link): string =>
  mac(key, 'entry', [tenantId, seq, before, entryId, isInOurTime(createdAt) ? createdAt.toISOString() : null, digest])

/** What an entry waits for its seal with: made where it is recorded, checked where it is sealed. @param values of `valuesOf` */
export const waitingMac = (key: MacKey, values: readonly (string | null)[]): string => mac(key, 'waiting', values)

/** What says how many seals were ever made, in all chains. */
export const sealsMac = (key: MacKey, seals: number): string => mac(key, 'seals', [seals])

/** What says where a chain ends. */
export const headMac = (key: MacKey, tenantId: string, seq: number, hash: string): string =>
  mac(key, 'head', [tenantId, seq, hash])

/** What says where a chain begins after its first entries were dropped. */
export const checkpointMac = (key: MacKey, tenantId: string, seq: number, hash: string): string =>
  mac(key, 'checkpoint', [tenantId, seq, hash])

/** What says that entries before this moment were dropped by their age. */
export const keptFromMac = (key: MacKey, keptFrom: Date): string => mac(key, 'kept from', [keptFrom.toISOString()])

export const isMac = (given: string | null, right: string): boolean =>
  given !== null && equalInConstantTime(given, right)

const mac = (key: MacKey, purpose: string, parts: readonly unknown[]): string =>
  macOf(key, JSON.stringify([purpose, ...parts]))
