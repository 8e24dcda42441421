/** Reads entries without a seal at their position: waiting ones, and invalid ones. */
import type { Session } from '../../kernel/database/database.ts'
import { membersOf } from './columns.ts'
import type { MacKey } from './mac.ts'
import { isAhead } from './model/seal-watermark.ts'
import { isInOurTime, NO_TENANT_KEY } from './model/tables.ts'
import { FIRST, isGenuine, READ_AT_ONCE, type Recorded } from './unsealed.ts'

export interface UnchainedEntry extends Recorded {
  /** `createdAt` in PostgreSQL's form. */
  readonly at: string
  /** Whether the sealer has not read it yet. */
  readonly isAhead: boolean
  /** Whether a seal at another position has its id. */
  readonly isSealed: boolean
}

/** @param tenantId undefined: of all tenants */
export async function* unchainedEntries(client: Session, tenantId: string | undefined): AsyncGenerator<UnchainedEntry> {
  for (let after: unknown[] = [FIRST.createdAt, FIRST.id]; ; ) {
    const { rows } = await client.query<UnchainedEntry>(
      `select ${membersOf('e')}, e.created_at::text as at, e.mac, ${isAhead('e')} as "isAhead",
         exists (select from multitenancy.audit_seals s where s.entry_id = e.id) as "isSealed"
       from multitenancy.audit_entries e
       where (e.created_at, e.id) > ($1, $2) and ${tenantId === undefined ? '$3::text is null' : 'e.tenant_id = $3'}
         and not exists (select from multitenancy.audit_seals s
           where s.entry_id = e.id and s.created_at = e.created_at and s.tenant_id = coalesce(e.tenant_id, '${NO_TENANT_KEY}'))
       order by e.created_at, e.id limit ${READ_AT_ONCE}`,
      [...after, tenantId ?? null],
    )
    yield* rows
    const last = rows.at(-1)
    if (!last || rows.length < READ_AT_ONCE) return
    after = [last.at, last.id]
  }
}

/** Undefined: it waits for its seal. */
export function whatIsWrongWith(entry: UnchainedEntry, key: MacKey, isBackfillDone: boolean): string | undefined {
  const inserted = 'inserted: no seal, and not waiting for one'
  if (!isInOurTime(entry.createdAt) || entry.isSealed || (entry.mac === null && isBackfillDone)) return inserted
  if (!isGenuine(key, isBackfillDone, entry)) return 'changed before it was sealed, or inserted'
  return entry.isAhead ? undefined : inserted
}
