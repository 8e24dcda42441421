/**
 * Computes the seals that reveal changed, removed, inserted and reordered entries.
 *
 * - The entries of each tenant form a chain in the order of sealing. A seal is an HMAC over its position, the previous seal, and the
 *   entry's id, time and digest. So a seal can be checked without its entry, and confirms all seals before it.
 * - An entry has its own HMAC from the time of its recording, and is sealed only with a valid one, except entries from before the first
 *   key (seal-key-store.ts). The key is encrypted with the application key, so a database superuser can compute no HMAC.
 * - The number of all seals is stored with an HMAC. It reveals a chain that was rolled back and sealed again without an entry.
 * - The end of each chain has an HMAC, too. It reveals missing newest entries, except if a complete older end was restored, which only
 *   the number of seals reveals.
 *
 * Limits: a removed entry that had no seal yet (up to a minute) leaves no trace. A rollback of all of this, including the number of
 * seals, is undetected. To detect it, keep the hash of an entry elsewhere and verify that the entry still exists.
 */
import { createHash } from 'node:crypto'
import { equalInConstantTime } from '../../kernel/crypto/crypto.ts'
import { COLUMNS } from './columns.ts'
import { type MacKey, macOf } from './mac.ts'
import { isInOurTime } from './model/tables.ts'

/** Previous hash of a chain's first entry. */
export const NO_HASH = ''

/**
 * SQL of a complete entry as text. It uses only built-in functions, because functions of the database can be replaced.
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
  /** Hash of the previous seal. */
  readonly before: string
  readonly entryId: string
  readonly createdAt: Date
  readonly digest: string
}

/** Lowercase hex. */
export const sealOf = (key: MacKey, { tenantId, seq, before, entryId, createdAt, digest }: Link): string =>
  mac(key, 'entry', [tenantId, seq, before, entryId, isInOurTime(createdAt) ? createdAt.toISOString() : null, digest])

/** HMAC of an entry that waits for its seal: computed at its recording, checked at its sealing. @param values of `valuesOf` */
export const waitingMac = (key: MacKey, values: readonly (string | null)[]): string => mac(key, 'waiting', values)

/** HMAC of the number of all seals in all chains. */
export const sealsMac = (key: MacKey, seals: number): string => mac(key, 'seals', [seals])

/** HMAC of the end of a chain. */
export const headMac = (key: MacKey, tenantId: string, seq: number, hash: string): string =>
  mac(key, 'head', [tenantId, seq, hash])

/** HMAC of the start of a chain whose first entries were dropped. */
export const checkpointMac = (key: MacKey, tenantId: string, seq: number, hash: string): string =>
  mac(key, 'checkpoint', [tenantId, seq, hash])

/** HMAC of the time before which entries were dropped by retention. */
export const keptFromMac = (key: MacKey, keptFrom: Date): string => mac(key, 'kept from', [keptFrom.toISOString()])

/** HMAC of the report of an erasure. */
export const reportMac = (key: MacKey, text: string): string => mac(key, 'erasure report', [text])

export const isMac = (given: string | null, right: string): boolean =>
  given !== null && equalInConstantTime(given, right)

const mac = (key: MacKey, purpose: string, parts: readonly unknown[]): string =>
  macOf(key, JSON.stringify([purpose, ...parts]))
