/**
 * Counts in transactions of the backoffice, also those that relay entries of tenants' transactions. They commit with it, without the store.
 *
 * Each day, tenant and key has one such row beside those of the store. Each transaction writes its rows once, before its commit and in one
 * order: it locks them only briefly, and transactions cannot deadlock. Tenants are locked as by the rollup.
 */
import type { Database } from '../../kernel/database/database.ts'
import { MAX_SUM } from '../../kernel/store/sums.ts'
import type { CountOfDay } from './write-through.ts'

/** No sum of a store has it. */
const INCARNATION = '00000000-0000-0000-0000-000000000000'

const WRITE = `
  with counted as materialized (
    select day, tenant_id, key, least(sum(amount), ${MAX_SUM})::bigint as value
    from unnest($1::date[], $2::text[], $3::text[], $4::bigint[]) as counted (day, tenant_id, key, amount)
    group by day, tenant_id, key
  ), leaving as materialized (
    select id from multitenancy.tenants where id = any($2) and status = 'deleted' and purged_at is null
    order by id for share
  )
  insert into multitenancy.metric_sums as kept (day, tenant_id, key, incarnation, value)
  select day, tenant_id, key, '${INCARNATION}', value from counted
  where tenant_id in (select id from leaving) or 'deleted' <> (select status from multitenancy.tenants where id = tenant_id)
  order by day, tenant_id collate "C", key collate "C"
  on conflict (day, tenant_id, key, incarnation) do update set value = least(kept.value + excluded.value, ${MAX_SUM})`

export class TransactionCounts {
  readonly #database: Database
  readonly #write = (counts: readonly CountOfDay[]): Promise<unknown> =>
    this.#database.sql(WRITE, [
      counts.map(({ day }) => day),
      counts.map(({ tenantId }) => tenantId),
      counts.map(({ name }) => name),
      counts.map(({ amount }) => amount),
    ])

  constructor(database: Database) {
    this.#database = database
  }

  /** Counts in the transaction in progress; there must be one. */
  add(count: CountOfDay): Promise<void> {
    return this.#database.beforeCommit(this.#write, count)
  }
}
