/** Entries without a seal, as the sealer reads them, and their genuineness. */
import type { Database } from '../../kernel/database/database.ts'
import { isMac, textOf, waitingMac } from './chain.ts'
import { membersOf, valuesOf } from './columns.ts'
import type { MacKey } from './mac.ts'
import type { Pass } from './model/seal-watermark.ts'
import { type AuditEntryRow, inOurTime } from './model/tables.ts'

export const READ_AT_ONCE = 1_000

/** An entry with the HMAC of its recording. Null: recorded before the first key, or a false entry. */
export type Recorded = AuditEntryRow & { readonly mac: string | null }

export type Unsealed = Recorded & Position & { readonly text: string }

/** Position of a pass. */
export interface Position {
  /** Number of the transaction. */
  readonly xact: string
  readonly createdAt: Date | '-infinity'
  readonly id: string
}

export const FIRST: Position = { xact: '0', createdAt: '-infinity', id: '00000000-0000-0000-0000-000000000000' }

/** From the watermark in the order of transactions; without a range in the order of times. */
export async function unsealedAfter(
  database: Database,
  { range }: Pass,
  { xact, createdAt, id }: Position,
  limit: number,
): Promise<Unsealed[]> {
  const { rows } = range
    ? await database.sql(
        reading('xact >= $1 and xact < $2 and (xact, created_at, id) > ($3, $4, $5)', 'xact, created_at, id', limit),
        [range.from, range.to, xact, createdAt, id],
      )
    : // Entries from before the first key share one number.
      await database.sql(reading('(created_at, id) > ($1, $2)', 'created_at, id', limit), [createdAt, id])
  return rows
}

const reading = (where: string, order: string, limit: number): string =>
  `select ${membersOf('e')}, e.mac, e.xact, ${textOf('e')} as text
   from (
     select * from multitenancy.audit_entries e
     where ${where} and ${inOurTime('e')} and not exists (select from multitenancy.audit_seals s where s.entry_id = e.id)
     order by ${order} limit ${limit}) e
   order by ${order}`

/** Whether Tenantry recorded the entry in this form. */
export const isGenuine = (key: MacKey, isBackfillDone: boolean, entry: Recorded): boolean =>
  entry.mac === null ? !isBackfillDone : isMac(entry.mac, waitingMac(key, valuesOf(entry)))
