/**
 * Claims, renews and settles the items of one migration run for one worker; each method is one statement.
 *
 * Lock order: an item before its tenant, several tenants by id.
 */
import type { Database } from '../../kernel/database/database.ts'
import { AttemptLost, createLease, expired, held, type Lease, leasedUntil } from '../../kernel/jobs/lease.ts'
import { notifyTableChanges } from '../isolation/schema-generation.ts'
import { MigrationInterrupted } from './errors.ts'
import { type Counts, ITEM_STATES, type MigrationItem, type MigrationRun } from './model/run.ts'

const ITEMS = { table: 'multitenancy.migration_items', group: 'run_id', row: 'storage' }
/** An item that kills its process each time must fail. */
const LEASES_LOST_AT_MOST = 5

export interface Claimed {
  readonly storage: string
  readonly tenantId: string | null
  readonly isolation: string
  readonly placement: string
  readonly attempts: number
  /** The migrations that an interrupted rollback had selected. */
  readonly migrations: readonly string[] | null
  /** The tenant of a separate storage. Null if it is deleted, or if tenants share the storage. */
  readonly tenant: {
    readonly id: string
    readonly locator: string
    readonly epoch: number
    readonly version: string
  } | null
}

export interface ItemResult {
  readonly storage: string
  readonly state: 'pending' | 'done' | 'failed' | 'skipped'
  readonly migrations: readonly string[] | null
  readonly error: { readonly code: string; readonly message: string } | null
  readonly durationMs: number
  /** Delay of the next attempt. */
  readonly delayMs: number
  /** The new version of the tenant of a separate storage. */
  readonly versioned: { readonly tenantId: string; readonly epoch: number; readonly version: string } | null
}

export class MigrationItems {
  readonly #database: Database
  readonly #run: MigrationRun
  readonly #leaseMs: number
  readonly #lease: Lease

  constructor(database: Database, run: MigrationRun, leaseMs: number, worker?: string) {
    this.#database = database
    this.#run = run
    this.#leaseMs = leaseMs
    this.#lease = createLease(database, ITEMS, run.id, leaseMs, worker)
  }

  /** Returns an empty list if the run has ended, is cancelled, or has reached its maximum of failures. */
  async claim(limit: number): Promise<Claimed[]> {
    const { rows } = await this.#database.sql(CLAIM[this.#run.direction], [
      this.#run.id,
      this.#lease.worker,
      limit,
      this.#leaseMs,
    ])
    return rows.map(toClaimed)
  }

  /** Returns the storages whose result was written. Other workers have taken over the others. */
  async record(results: readonly ItemResult[]): Promise<Set<string>> {
    const { rows } = await this.#database.sql(SETTLE, [this.#run.id, this.#lease.worker, JSON.stringify(results)])
    return new Set(rows.map(({ storage }) => storage))
  }

  /** Returns items that were claimed and not started. */
  async release(storages: readonly string[]): Promise<void> {
    await this.#lease.update(`state = 'pending', attempts = attempts - 1, worker = null`, [], storages)
  }

  /** Extends the leases of the worker's items and of the run. */
  async renew(): Promise<void> {
    await this.#lease.renew()
    await this.#database.sql(
      `update multitenancy.migration_runs set worked_until = ${leasedUntil('$2')} where id = $1 and state = 'running'`,
      [this.#run.id, this.#leaseMs],
    )
  }

  async isCancelled(): Promise<boolean> {
    const { rows } = await this.#database.sql(
      'select is_cancelled as "isCancelled" from multitenancy.migration_runs where id = $1',
      [this.#run.id],
    )
    return rows[0]?.isCancelled ?? false
  }

  /** Marks the run as free. A worker that continues marks it again with its next renewal. */
  async leave(): Promise<void> {
    await this.#database.sql(
      `update multitenancy.migration_runs set worked_until = now() where id = $1 and state = 'running'`,
      [this.#run.id],
    )
  }

  /** Stores the migrations of a rollback before it starts: a worker that takes over rolls back the same. */
  async intend(storage: string, migrations: readonly string[]): Promise<void> {
    await this.#lease.update('migrations = $3', [migrations], [storage])
  }

  /** Locks an item until the transaction ends. */
  async hold(storage: string): Promise<void> {
    if (!(await this.#lease.lock(storage))) throw new AttemptLost(`another worker migrates the storage ${storage}`)
  }

  /** Writes the version of a tenant, unless its storage or version has changed since the claim. */
  async write({ id, epoch, version }: NonNullable<Claimed['tenant']>, now: string): Promise<void> {
    await this.#database.sql(
      'update multitenancy.tenants set schema_version = $4 where id = $1 and epoch = $2 and schema_version = $3',
      [id, epoch, version, now],
    )
  }

  /** Makes items with an expired lease claimable. Returns the time until an item is claimable, in milliseconds. */
  async reclaim(): Promise<number> {
    const { rows } = await this.#database.sql(RECLAIM, [
      this.#run.id,
      this.#run.retries + LEASES_LOST_AT_MOST,
      MigrationInterrupted.code,
    ])
    return rows[0].wait_ms
  }

  /** Ends the run if no work is left. Returns whether it has ended. */
  async finish(now: Date): Promise<boolean> {
    return this.#database.transaction(async () => {
      // A claim holds a share lock of this row: no item is claimed between the count and the end.
      const held = await this.#database.sql(
        `select from multitenancy.migration_runs where id = $1 and state = 'running' for update`,
        [this.#run.id],
      )
      if (held.rows.length === 0) return true
      const { rows } = await this.#database.sql(FINISH, [this.#run.id, now])
      if (rows.length > 0) await notifyTableChanges(this.#database)
      return rows.length > 0
    })
  }

  async counts(): Promise<Counts> {
    const { rows } = await this.#database.sql(
      'select state, count(*) as count from multitenancy.migration_items where run_id = $1 group by state',
      [this.#run.id],
    )
    const counted = new Map<string, number>(rows.map(({ state, count }) => [state, count]))
    return Object.fromEntries(ITEM_STATES.map((state) => [state, counted.get(state) ?? 0])) as unknown as Counts
  }

  async all(): Promise<MigrationItem[]> {
    const { rows } = await this.#database.sql(
      `select tenant_id, isolation, placement, state, attempts, migrations, error_code, error_message, duration_ms
       from multitenancy.migration_items where run_id = $1 order by storage`,
      [this.#run.id],
    )
    return rows.map((row) => ({
      tenantId: row.tenant_id,
      isolation: row.isolation,
      placement: row.placement,
      state: row.state,
      migrations: row.migrations ?? [],
      attempts: row.attempts,
      durationMs: row.duration_ms,
      error: row.error_code === null ? null : { code: row.error_code, message: row.error_message },
    }))
  }
}

/** Reads the tenant with the claim: it may have moved or been deleted since the start of the run. */
const claimStatement = (alsoClaimed: string) => `
  with run as (
    select id from multitenancy.migration_runs run
    where id = $1 and state = 'running' and not is_cancelled
      and (stop_after_failures is null or stop_after_failures > (
        select count(*) from multitenancy.migration_items where run_id = $1 and state = 'failed'))
    for share
  ), next as (
    select item.storage from multitenancy.migration_items item, run
    where item.run_id = $1 and item.state = 'pending' and item.due_at <= now()
    order by item.attempts, item.storage limit $3 for update of item skip locked
  ), claimed as (
    update multitenancy.migration_items item
    set state = 'running', worker = $2, lease_until = ${leasedUntil('$4')}, attempts = item.attempts + 1
    from next where item.run_id = $1 and item.storage = next.storage
    returning item.storage, item.tenant_id, item.isolation, item.placement, item.attempts, item.migrations
  )${alsoClaimed}
  select claimed.*, tenant.id, tenant.locator, tenant.epoch, tenant.schema_version
  from claimed left join multitenancy.tenants tenant
    on tenant.id = claimed.tenant_id and tenant.status in ('active', 'suspended')
  order by claimed.attempts, claimed.storage`

const CLAIM = {
  up: claimStatement(''),
  // While the result of a rollback is unknown, the storage must not count as up to date.
  down: claimStatement(`, chosen as (
    select id from multitenancy.tenants where id in (select tenant_id from claimed) order by id for no key update
  ), unversioned as (
    update multitenancy.tenants tenant set schema_version = '' from chosen where tenant.id = chosen.id)`),
}

const SETTLE = `
  with outcome as (
    select * from jsonb_to_recordset($3::jsonb) as outcome
      (storage text, state text, migrations jsonb, error jsonb, "durationMs" integer, "delayMs" integer, versioned jsonb)
  ), settled as (
    update multitenancy.migration_items item
    set state = case
          when outcome.state in ('pending', 'failed') and item.tenant_id is not null and not exists (
            select from multitenancy.tenants where id = item.tenant_id and status in ('active', 'suspended'))
          then 'skipped' else outcome.state end,
        migrations = case when outcome.migrations is null then item.migrations
          else array(select jsonb_array_elements_text(outcome.migrations)) end,
        error_code = outcome.error ->> 'code', error_message = outcome.error ->> 'message',
        duration_ms = outcome."durationMs", due_at = now() + outcome."delayMs" * interval '1 ms', worker = null
    from outcome
    where item.run_id = $1 and item.storage = outcome.storage and ${held('item')}
    returning item.storage, outcome.versioned
  ), chosen as (
    select tenant.id, settled.versioned ->> 'version' as version
    from settled join multitenancy.tenants tenant
      on tenant.id = settled.versioned ->> 'tenantId' and tenant.epoch = (settled.versioned ->> 'epoch')::integer
    order by tenant.id for no key update of tenant
  ), versioned as (
    update multitenancy.tenants tenant set schema_version = chosen.version from chosen where tenant.id = chosen.id
  )
  select storage from settled`

const RECLAIM = `
  with lost as (
    select storage from multitenancy.migration_items item
    where run_id = $1 and ${expired('item')} for update skip locked
  ), reclaimed as (
    update multitenancy.migration_items item
    set state = case when attempts >= $2 then 'failed' else 'pending' end, worker = null,
        error_code = case when attempts >= $2 then $3 end,
        error_message = case when attempts >= $2 then 'The process that ran the migrations ended in each attempt.' end
    from lost where item.run_id = $1 and item.storage = lost.storage
    returning 0::double precision as wait_ms
  ), waiting as (
    select extract(epoch from case state when 'pending' then due_at else lease_until end - now()) * 1000 as wait_ms
    from multitenancy.migration_items where run_id = $1 and state in ('pending', 'running')
  )
  select greatest(min(wait_ms), 0)::double precision as wait_ms
  from (select wait_ms from reclaimed union all select wait_ms from waiting) waits`

const FINISH = `
  with items as (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'running') as running,
      count(*) filter (where state = 'failed') as failed, count(*) filter (where state = 'done') as done,
      count(*) filter (where state = 'skipped') as skipped
    from multitenancy.migration_items where run_id = $1
  ), finished as (
    update multitenancy.migration_runs run
    set state = case when failed > 0 then 'failed' when is_cancelled then 'cancelled' else 'completed' end, finished_at = $2,
      counts = jsonb_build_object('done', done, 'failed', failed, 'skipped', skipped + pending)
    from items
    where run.id = $1 and running = 0 and (pending = 0 or is_cancelled or failed >= stop_after_failures)
    returning run.id
  ), left_out as (
    update multitenancy.migration_items item set state = 'skipped' from finished
    where item.run_id = finished.id and item.state = 'pending'
  )
  select id from finished`

const toClaimed = (row: any): Claimed => ({
  storage: row.storage,
  tenantId: row.tenant_id,
  isolation: row.isolation,
  placement: row.placement,
  attempts: row.attempts,
  migrations: row.migrations,
  tenant: row.id && { id: row.id, locator: row.locator, epoch: row.epoch, version: row.schema_version },
})
