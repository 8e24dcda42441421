/**
 * The stream of sealed entries, in the order of sealing.
 *
 * - The sealer assigns positions in transactions that exclude each other, so a position is visible after all lower ones.
 * - Within the chain of a tenant, `sequence` has no gaps: a receiver detects missing entries.
 * - A query returns the states of at most three batches, so large entries do not fill the memory of the process.
 */
import type { Database } from '../../kernel/database/database.ts'
import type { Batch, Stream } from '../../kernel/events/streams.ts'
import { COLUMNS, membersOf } from './columns.ts'
import { type AuditEntry, toEntry } from './model/entry.ts'
import type { SealedEntryRow } from './model/tables.ts'

export const AUDIT_STREAM = 'audit.entries'

const READ_AT_ONCE = 500

interface StreamedEntry extends AuditEntry {
  /** In the stream. */
  readonly position: number
  /** In the chain of the tenant, from 1. */
  readonly sequence: number
  /** `before` and `after` are null, because the entry is too large for a batch. */
  readonly isTruncated: boolean
}

interface Row extends SealedEntryRow {
  readonly position: number
  readonly sequence: number
  readonly isKept: boolean
  readonly isTruncated: boolean
}

/** Decrypts the fields of entries. */
type Decrypt = <Entry extends SealedEntryRow>(entries: readonly Entry[]) => Promise<Entry[]>

export const auditStream = (database: Database, decrypt: Decrypt = async (entries) => [...entries]): Stream => ({
  name: AUDIT_STREAM,
  async after(position, maxBytes) {
    for (let last = position; ; ) {
      const { rows } = await database.sql(PAGE, [last, maxBytes])
      // An entry may be missing behind its seal: retention has dropped it, or it was removed, which the verification reports.
      const batch = batchOf(await decrypt(rows as Row[]), position, maxBytes)
      if (batch || rows.length === 0) return batch
      last = rows.at(-1)?.position ?? last
    }
  },
  async oldestAfter(position) {
    const { rows } = await database.sql(OLDEST, [position])
    return rows[0]?.createdAt ?? null
  },
})

const FITTING_COLUMNS = COLUMNS.map((column) =>
  column === 'before' || column === 'after' ? `case when size <= 2 * $2 then ${column} end as ${column}` : column,
)

/** $1: position. The time of the next entry that exists. */
const OLDEST = `
  select e.created_at as "createdAt" from multitenancy.audit_seals s
  join multitenancy.audit_entries e on e.id = s.entry_id and e.created_at = s.created_at
  where s.position > $1 order by s.position limit 1`

/**
 * $1: position; $2: size of a batch. Reads entry by entry until a batch is full: a sum over all rows of a page would read the states of
 * each. An entry that cannot fit into a batch has no states: JSON without spaces has at least half of the size.
 */
const PAGE = `
  with recursive page as (
    select $1::bigint as position, 0 as count, 0::bigint as bytes, 0 as size
    union all
    select next.position, count + 1, bytes + next.size, next.size
    from page cross join lateral (
      select s.position, coalesce(octet_length(before::text), 0) + coalesce(octet_length(after::text), 0) as size
      from multitenancy.audit_seals s
      left join multitenancy.audit_entries e on e.id = s.entry_id and e.created_at = s.created_at
      where s.position > page.position order by s.position limit 1) next
    where count < ${READ_AT_ONCE} and bytes < $2
  )
  select s.position, s.seq as sequence, s.hash, e.id is not null as "isKept", size > 2 * $2 as "isTruncated", ${membersOf('e')}
  from page join multitenancy.audit_seals s using (position)
  left join lateral (
    select ${FITTING_COLUMNS.join(', ')} from multitenancy.audit_entries where id = s.entry_id and created_at = s.created_at) e on true
  where count > 0 order by s.position`

function batchOf(rows: readonly Row[], previous: number, maxBytes: number): Batch | undefined {
  const entries: StreamedEntry[] = []
  let room = maxBytes
  for (const { position, sequence, isKept, isTruncated, ...row } of rows) {
    if (!isKept) continue
    const entry = fitting({ ...toEntry(row), position, sequence, isTruncated }, maxBytes)
    room -= bytesOf(entry)
    if (room < 0 && entries.length > 0) break
    entries.push(entry)
  }
  const position = entries.at(-1)?.position
  return position === undefined ? undefined : { position, body: { previous, position, entries } }
}

const fitting = (entry: StreamedEntry, maxBytes: number): StreamedEntry =>
  bytesOf(entry) <= maxBytes ? entry : { ...entry, before: null, after: null, isTruncated: true }

const bytesOf = (entry: StreamedEntry): number => Buffer.byteLength(JSON.stringify(entry))
