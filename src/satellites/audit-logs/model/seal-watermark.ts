/**
 * Limits the transactions in which the sealer looks for entries without a seal.
 *
 * - An entry has the number of its transaction. After a pass has read all entries without a seal, the watermark becomes the horizon that
 *   was read before the pass: earlier transactions had ended, later ones have higher numbers. A long transaction of any database of the
 *   server delays the watermark, and no entry.
 * - Numbers belong to one cluster. A watermark of another cluster (a restored dump) or of the future is ignored: everything is read.
 * - A watermark that was moved too far hides entries from the sealer, and none from the verification.
 */
import type { Database } from '../../../kernel/database/database.ts'

const CLUSTER = '(select system_identifier::text from pg_catalog.pg_control_system())'
const HORIZON = 'pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())'
const END = 'pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())'
const HOLDS = `sealed_in = ${CLUSTER} and sealed_to <= ${END}`
const LAST = '18446744073709551615'

/**
 * SQL: whether the sealer would read an entry without a seal.
 * @param entry alias of `audit_entries`
 */
export const isAhead = (entry: string): string =>
  `(${entry}.xact >= coalesce((select sealed_to from multitenancy.audit_state where ${HOLDS}), '0')
    and ${entry}.xact < coalesce((select ${END} from multitenancy.audit_state where ${HOLDS}), '${LAST}'))`

/** One pass of the sealer. */
export interface Pass {
  /** Undefined: everything. */
  readonly range: { readonly from: string; readonly to: string } | undefined
  /** The present watermark and the next one. */
  readonly watermark: Watermark | undefined
  readonly next: Watermark
}

interface Watermark {
  readonly to: string
  readonly in: string
}

/** Must run before any read of the pass. */
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

/** Runs in the transaction of the last seals of a pass. The watermark of a faster concurrent pass stays. */
export async function advanceWatermark(database: Database, { watermark, next }: Pass): Promise<void> {
  await database.sql(
    `update multitenancy.audit_state set sealed_to = $1, sealed_in = $2
     where sealed_to is not distinct from $3 and sealed_in is not distinct from $4 and (sealed_to, sealed_in) is distinct from ($1, $2)`,
    [next.to, next.in, watermark?.to ?? null, watermark?.in ?? null],
  )
}
