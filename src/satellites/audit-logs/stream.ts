/**
 * The stream of sealed entries, in the order of sealing.
 *
 * - The sealer assigns positions in transactions that exclude each other, so a position is visible after all lower ones.
 * - Within the chain of a tenant, `sequence` has no gaps: a receiver detects missing entries.
 */
import type { Database } from '../../kernel/database/database.ts'
import type { Batch, Stream } from '../../kernel/events/streams.ts'
import { membersOf } from './columns.ts'
import { type AuditEntry, toEntry } from './entry.ts'
import type { SealedEntryRow } from './tables.ts'

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

type Row = SealedEntryRow & { readonly position: number; readonly sequence: number; readonly isKept: boolean }

export const auditStream = (database: Database): Stream => ({
  name: AUDIT_STREAM,
  async after(position, maxBytes) {
    for (let last = position; ; ) {
      const rows = await sealedAfter(database, last)
      // An entry may be missing behind its seal: retention has dropped it, or it was removed, which the verification reports.
      const batch = batchOf(rows, position, maxBytes)
      if (batch || rows.length === 0) return batch
      last = rows.at(-1)?.position ?? last
    }
  },
})

async function sealedAfter(database: Database, position: number): Promise<Row[]> {
  const { rows } = await database.sql(
    `select s.position, s.seq as sequence, s.hash, e.id is not null as "isKept", ${membersOf('e')}
     from (select * from multitenancy.audit_seals where position > $1 order by position limit ${READ_AT_ONCE}) s
     left join multitenancy.audit_entries e on e.id = s.entry_id and e.created_at = s.created_at
     order by s.position`,
    [position],
  )
  return rows
}

function batchOf(rows: readonly Row[], previous: number, maxBytes: number): Batch | undefined {
  const entries: StreamedEntry[] = []
  let room = maxBytes
  for (const { position, sequence, isKept, ...row } of rows) {
    if (!isKept) continue
    const entry = fitting({ ...toEntry(row), position, sequence, isTruncated: false }, maxBytes)
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
