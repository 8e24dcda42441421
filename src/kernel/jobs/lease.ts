/**
 * Leases on rows of work: one worker holds a row until `lease_until` of the database clock, then another worker may take it over.
 *
 *   pending ──claim──► running ──settle──► an end state
 *      ▲                │ ▲ └── renew(): later `lease_until`
 *      └────release─────┘ └──── claim by another worker, after `lease_until`
 *
 * The owner of the rows claims them: tenants/migrations/items.ts, tenants/transfers/execution/attempt.ts,
 * tenants/bulk/worker.ts.
 */
import { randomUUID } from 'node:crypto'
import type { Database } from '../database/database.ts'

/** One failed renewal must not end a lease. */
export const RENEWALS_PER_LEASE = 3

/** Conditions on a row, as SQL. Every change by a worker requires `held`, every takeover `expired`. */
export const held = (row: string): string => `${row}.state = 'running' and ${row}.worker = $2`
export const expired = (row: string): string => `${row}.state = 'running' and ${row}.lease_until < now()`
export const leasedUntil = (ms: number | `$${number}`): string => `now() + ${ms} * interval '1 ms'`

/** The worker lost its work: another worker holds it, it was cancelled, or its basis has changed. Its changes must not count. */
export class AttemptLost extends Error {
  override readonly name = 'AttemptLost'
}

export interface LeasedRows {
  readonly table: string
  /** The column with the same value in all rows of a lease. */
  readonly group: string
  /** The column that identifies a row in its group. */
  readonly row: string
}

export type Lease = ReturnType<typeof createLease>

/** The lease of one worker. In its statements `$1` is the value of the group and `$2` the worker. */
export function createLease(
  database: Database,
  { table, group, row }: LeasedRows,
  of: string,
  leaseMs: number,
  worker: string = randomUUID(),
) {
  const isHeld = `work.${group} = $1 and ${held('work')}`
  return {
    worker,

    /** Changes rows that the worker holds. `$3` is the first of `values`. Returns false if it holds none of them. */
    async update(changes: string, values: readonly unknown[] = [], only?: readonly string[]): Promise<boolean> {
      const isMeant = only ? `and work.${row} = any ($${values.length + 3})` : ''
      const { rows } = await database.sql(
        `update ${table} work set ${changes} where ${isHeld} ${isMeant} returning work.${row}`,
        [of, worker, ...values, ...(only ? [only] : [])],
      )
      return rows.length > 0
    },

    /** Locks a row until the transaction ends: no other worker takes it over. Undefined if the lease is lost. */
    async lock(one: string): Promise<any> {
      const query = `select * from ${table} work where ${isHeld} and work.${row} = $3 for update`
      return (await database.sql(query, [of, worker, one])).rows[0]
    },

    /**
     * Extends the lease. Skips locked rows, which no other worker can take. Returns false if the worker holds no row.
     *
     * @param changes written with it. `$4` is the first of `values`
     */
    async renew(changes = '', values: readonly unknown[] = []): Promise<boolean> {
      const { rows } = await database.sql(
        `with free as (select work.${row} from ${table} work where ${isHeld} for no key update skip locked),
           renewed as (update ${table} work set lease_until = ${leasedUntil('$3')}${changes}
             from free where work.${group} = $1 and work.${row} = free.${row})
         select exists (select from ${table} work where ${isHeld}) as holds`,
        [of, worker, leaseMs, ...values],
      )
      return rows[0].holds
    },
  }
}
