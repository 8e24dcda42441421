/** What waits for its seal, as it is found: with its entry, if that is there, and with the seal that has its id, if one does. */
import { isMac, textOf, waitingMac } from './chain.ts'
import type { AuditEntryRow } from './tables.ts'

export const READ_AT_ONCE = 1_000

export interface Waiting {
  readonly createdAt: Date
  readonly entryId: string
  readonly tenantId: string
  /** Null: recorded before there were seals, or by somebody else. */
  readonly mac: string | null
  /** Null: the entry is gone. */
  readonly text: string | null
  /** Of when the entry is whose seal has its id. */
  readonly sealedAt: Date | null
  readonly entry: AuditEntryRow
}

/** Up to where has been looked. */
export type Position = readonly [createdAt: Date, entryId: string]

export const FIRST: Position = [new Date(-8_640_000_000_000), '00000000-0000-0000-0000-000000000000']

/** @param query of whichever connection */
export async function waitingAfter(
  query: (text: string, values: unknown[]) => Promise<{ rows: any[] }>,
  [createdAt, entryId]: Position,
): Promise<{ readonly waiting: Waiting[]; readonly next: Position | undefined }> {
  const { rows } = await query(
    `with waiting as materialized (
       select created_at, entry_id, tenant_id, mac from multitenancy.audit_unsealed
       where (created_at, entry_id) > ($1, $2) order by created_at, entry_id limit ${READ_AT_ONCE})
     select w.created_at as "createdAt", w.entry_id as "entryId", w.tenant_id as "tenantId", w.mac, s.created_at as "sealedAt", e.*
     from waiting w
     left join lateral (
       select ${textOf('e')} as text, pg_catalog.jsonb_build_object('tenantId', tenant_id, 'action', action,
         'actorType', actor_type, 'actorId', actor_id, 'actorName', actor_name, 'target', target, 'before', before, 'after', after,
         'requestId', request_id, 'ip', ip, 'outcome', outcome) as entry
       from multitenancy.audit_entries e where e.created_at = w.created_at and e.id = w.entry_id offset 0) e on true
     left join lateral (
       select created_at from multitenancy.audit_seals s where s.entry_id = w.entry_id offset 0) s on true
     order by w.created_at, w.entry_id`,
    [createdAt, entryId],
  )
  const waiting: Waiting[] = rows.map((row) => ({
    ...row,
    entry: { ...row.entry, id: row.entryId, createdAt: row.createdAt },
  }))
  const last = waiting.at(-1)
  return { waiting, next: last && waiting.length === READ_AT_ONCE ? [last.createdAt, last.entryId] : undefined }
}

/** Whether its entry is there, and is what was recorded. */
export const isGenuine = (key: Buffer, isAdopted: boolean, { text, mac, entry, sealedAt }: Waiting): boolean =>
  text !== null && sealedAt === null && (mac === null ? !isAdopted : isMac(mac, waitingMac(key, entry)))

/** Whether it waits once more than it should: its seal is there. */
export const isSealed = ({ sealedAt, createdAt }: Waiting): boolean => sealedAt?.getTime() === createdAt.getTime()
