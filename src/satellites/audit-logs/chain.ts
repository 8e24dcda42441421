/**
 * Chains of seals: whoever changes, removes, adds or reorders entries behind the triggers is found out.
 *
 * Each tenant's entries are a chain, in the order in which they were sealed. A seal is an HMAC over its place in the chain, the seal
 * before it, and which entry it is, of when, and what that says, as a digest: so it can be checked without its entry, too, and stands
 * for everything before it. What waits for its seal has an HMAC of its own from the moment when it was recorded. The key is no part of
 * the database: it is kept there under the application key (keeper.ts), and a superuser of the database alone can make neither.
 *
 * What a chain cannot show: that an entry was removed, with what waits for its seal, in the minute before it was sealed; and that the
 * newest entries are gone when all that is known of them, the head of the chain included, was taken back to an earlier state. Who
 * keeps the hash of an entry elsewhere can ask whether it is still there.
 */
import { createHash, createHmac } from 'node:crypto'
import { equalInConstantTime } from '../../kernel/crypto.ts'
import type { AuditEntryRow } from './tables.ts'

/** Of a chain's first entry. */
export const NO_HASH = ''

/**
 * All of an entry as one text, by functions of PostgreSQL's own alone: what is defined in the database can be changed there.
 * @param entry alias of `audit_entries`
 */
export const textOf = (entry: string): string =>
  `pg_catalog.jsonb_build_array(${[
    'id',
    'tenant_id',
    'action',
    'actor_type',
    'actor_id',
    'actor_name',
    'target',
    'before',
    'after',
    'request_id',
    'ip',
    'outcome',
  ]
    .map((column) => `${entry}.${column}`)
    .join(', ')}, (extract(epoch from ${entry}.created_at) operator(pg_catalog.*) 1000)::bigint)::text`

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
export const sealOf = (key: Buffer, { tenantId, seq, before, entryId, createdAt, digest }: Link): string =>
  mac(key, 'entry', [tenantId, seq, before, entryId, createdAt.toISOString(), digest])

/** What an entry has while it waits for its seal: made where it was recorded, checked where it is sealed. */
export const waitingMac = (key: Buffer, entry: AuditEntryRow): string =>
  mac(key, 'waiting', [
    entry.id,
    entry.tenantId,
    entry.action,
    entry.actorType,
    entry.actorId,
    entry.actorName,
    entry.target,
    inOrder(entry.before),
    inOrder(entry.after),
    entry.requestId,
    entry.ip,
    entry.outcome,
    entry.createdAt.toISOString(),
  ])

/** What says where a chain begins after its first entries were dropped. */
export const checkpointMac = (key: Buffer, tenantId: string, seq: number, hash: string): string =>
  mac(key, 'checkpoint', [tenantId, seq, hash])

/** What says that entries before this moment were dropped by their age. */
export const keptFromMac = (key: Buffer, keptFrom: Date): string => mac(key, 'kept from', [keptFrom.toISOString()])

export const isMac = (given: string | null, right: string): boolean =>
  given !== null && equalInConstantTime(given, right)

const mac = (key: Buffer, purpose: string, parts: readonly unknown[]): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([purpose, ...parts]))
    .digest('hex')

/** The same whether it comes from a program or back from the database, which keeps no order of keys. */
function inOrder(value: unknown): unknown {
  const plain: unknown = JSON.parse(JSON.stringify(value ?? null))
  return sorted(plain)
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const pairs = Object.entries(value).map(([name, one]) => [name, sorted(one)] as const)
  return { members: pairs.sort(([one], [other]) => (one < other ? -1 : 1)) }
}
