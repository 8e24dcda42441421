/**
 * From which transaction on the sealer looks for entries that have no seal. The watermark keeps what it reads small, and that is all: an
 * entry has the number of its transaction, and when everything without a seal was looked at, the watermark becomes the horizon that was
 * seen before that began. Transactions before the horizon had all ended by then; what one that was running commits later is numbered
 * from the horizon on. A transaction that runs for long, of whichever database, holds the watermark back, and no entry.
 *
 * The numbers are those of one cluster. Where the watermark is of another, as in a dump that was restored, or of a number that is still to
 * come, it says nothing, and everything is looked at. One that somebody put too far hides entries from the sealer, and none from the
 * verification.
 */
import type { Database } from '../../kernel/database/database.ts'

const CLUSTER = '(select system_identifier::text from pg_catalog.pg_control_system())'
const HORIZON = 'pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())'
const END = 'pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())'
const HOLDS = `sealed_in = ${CLUSTER} and sealed_to <= ${END}`
const LAST = '18446744073709551615'

/**
 * Whether the sealer would look at an entry if it has no seal.
 * @param entry alias of `audit_entries`
 */
export const isAhead = (entry: string): string =>
  `(${entry}.xact >= coalesce((select sealed_to from multitenancy.audit_state where ${HOLDS}), '0')
    and ${entry}.xact < coalesce((select ${END} from multitenancy.audit_state where ${HOLDS}), '${LAST}'))`

/** What one pass of a sealer goes through. */
export interface Pass {
  /** Undefined: everything. */
  readonly range: { readonly from: string; readonly to: string } | undefined
  /** What the watermark is, and what it becomes. */
  readonly watermark: Watermark | undefined
  readonly next: Watermark
}

interface Watermark {
  readonly to: string
  readonly in: string
}

/** To be asked before anything is read. */
export async function startPass(database: Database): Promise<Pass> {
  const { rows } = await database.sql(
    `select sealed_to as "to", sealed_in as "in", (${HOLDS}) is true as "holds", ${CLUSTER} as cluster, ${HORIZON} as horizon, ${END} as "end"
     from multitenancy.audit_state`,
  )
  const { to, in: cluster, holds, ...now } = rows[0]
  return {
    range: holds ? { from: to, to: now.end } : undefined,
    watermark: to === null ? undefined : { to, in: cluster },
    next: { to: now.horizon, in: now.cluster },
  }
}

/** In the transaction of the last seals of a pass. Where another pass was quicker, it stays as that one left it. */
export async function advanceWatermark(database: Database, { watermark, next }: Pass): Promise<void> {
  await database.sql(
    `update multitenancy.audit_state set sealed_to = $1, sealed_in = $2
     where sealed_to is not distinct from $3 and sealed_in is not distinct from $4 and (sealed_to, sealed_in) is distinct from ($1, $2)`,
    [next.to, next.in, watermark?.to ?? null, watermark?.in ?? null],
  )
}
