/**
 * Runs the host's migrations in one tenant's schema. The applied migrations of a storage are recorded in
 * `tenantry.migrations` of the same database, so that a migration and its record commit together.
 *
 *   up          reads the state of the storage, in the caller's transaction; each migration is sent with its record
 *   upAtOnce    lock, comparison, migrations, records and commit as one text, for storage in the same state as the previous one:
 *               a process migrates thousands of equal storages, and a round trip costs as much as a small migration
 *
 * `upAtOnce` fails before it runs a migration if the state differs. Then `up` is used. `up` is also used if one of
 * several migrations of such a text has failed and all were rolled back: it finds the failed one.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { isWriteOutage } from '../../../kernel/database/write-failures.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import type { AppliedMigration } from '../../../tenants/tenant/schema-version.ts'
import { outboxObjects } from '../catalog/outbox-objects.ts'
import { orRollback } from '../transactions/owner-transaction.ts'
import { kyselyOn } from './migration-client.ts'
import {
  beginAssertingVersion,
  forgetting,
  hasEnded,
  isUnexpected,
  markStorage,
  RECORDS,
  recording,
  type StorageRead,
} from './migration-records.ts'
import { appliedOf, assertKnownMigrations, inOrder, lastOf, pendingOf, type Ran } from './migration-set.ts'

export const LOCK_BASE_OBJECTS = 'select pg_advisory_xact_lock(7367228002)'

/**
 * Objects that a database with tenants' rows needs once. Idempotent, also in ten concurrent processes, in a
 * transaction.
 */
export const baseObjects = (scopeRole: string): string => `
  ${LOCK_BASE_OBJECTS};
  create schema if not exists tenantry;
  ${RECORDS};
  create or replace function tenantry.current_tenant() returns text stable parallel safe language plpgsql as $function$
    declare tenant text := current_setting('app.tenant_id', true);
    begin
      if coalesce(tenant, '') = '' then
        raise insufficient_privilege using message = 'no tenant is set: this was asked outside of a tenant''s scope';
      end if;
      return tenant;
    end $function$;
  ${outboxObjects(scopeRole)};
  grant usage on schema tenantry to ${pg.escapeIdentifier(scopeRole)}`

type Direction = 'up' | 'down'

/** A migration that can be part of a text. */
type TextMigration = TenantMigration & { readonly up: string }

/** Serialization failure, deadlock, lock not available: a repeated migration may succeed. */
const PASSING = new Set(['40001', '40P01', '55P03'])

export class PostgresMigrator {
  readonly #migrations: readonly TenantMigration[]
  /** State and pending migrations of the storage that was read last. */
  #expected: { readonly state: string; readonly pending: readonly TextMigration[] } | undefined

  constructor(migrations: readonly TenantMigration[]) {
    this.#migrations = migrations
  }

  /** Runs all migrations in new storage. Returns the names of all applied migrations, in order. */
  async install(client: pg.ClientBase, locator: string, searchPath: string, { ran }: StorageRead): Promise<string[]> {
    const applied = appliedOf(this.#migrations, ran)
    return [...applied, ...(await this.#run(client, locator, searchPath, pendingOf(this.#migrations, applied)))]
  }

  /** Runs only these migrations, in the order of the folder, in storage that has none of them. */
  async installOnly(client: pg.ClientBase, locator: string, searchPath: string, names: readonly string[]) {
    const wanted = this.#migrations.filter(({ name }) => names.includes(name))
    const unknown = names.find((name) => !wanted.some((one) => one.name === name))
    if (unknown !== undefined)
      throw MigrationFailed(`The migration ${unknown} is unknown here. Use a version of the host that has it.`)
    await this.#run(client, locator, searchPath, wanted)
  }

  /** Replaces the records of a storage by the migrations up to `baseline`, without running them. Returns these. */
  async recordBaseline(client: pg.ClientBase, locator: string, baseline: string | undefined): Promise<readonly Ran[]> {
    const { recorded, text } = this.baselineText(locator, baseline)
    await client.query(text)
    return recorded
  }

  /** The statements of `recordBaseline`. */
  baselineText(
    locator: string,
    baseline: string | undefined,
  ): { readonly recorded: readonly Ran[]; readonly text: string } {
    const at = this.#migrations.findIndex(({ name }) => name === baseline)
    if (baseline !== undefined && at < 0) throw MigrationFailed(`The migration ${baseline} is unknown here.`)
    const recorded = this.#migrations.slice(0, at + 1)
    const statements = [
      `delete from tenantry.migrations where locator = ${pg.escapeLiteral(locator)}`,
      markStorage(locator),
      ...recorded.map((one) => recording(locator, one)),
    ]
    return { recorded, text: statements.join('; ') }
  }

  /** Throws `E_BACKUP_INCOMPATIBLE` with the migrations that are unknown or different here. */
  assertKnownMigrations(copied: readonly AppliedMigration[]): void {
    assertKnownMigrations(this.#migrations, copied)
  }

  /** Runs pending migrations in order. Throws `E_MIGRATION_FAILED` with the name of the migration. */
  async up(client: pg.ClientBase, locator: string, searchPath: string, read: StorageRead): Promise<string[]> {
    if (this.#migrations.length === 0) return []
    const pending = pendingOf(this.#migrations, appliedOf(this.#migrations, read.ran))
    assertStorageExists(read)
    const ran = await this.#run(client, locator, searchPath, pending)
    // Each has been run separately: its text is complete and does not end the transaction. Only then are they combined.
    if (pending.length > 0) this.#expected = pending.every(isText) ? { state: read.state, pending } : undefined
    return ran
  }

  /** The same in its own transaction. Returns undefined if it did nothing and `up` must be used. */
  async upAtOnce(
    client: pg.ClientBase,
    locator: string,
    searchPath: string,
    lockTimeoutMs: number,
  ): Promise<string[] | undefined> {
    if (!this.#expected) return undefined
    const { state, pending } = this.#expected
    const text = [
      beginAssertingVersion(locator, state, lockTimeoutMs),
      ...pending.map((migration) => stepText(searchPath, migration.up, recording(locator, migration))),
      'commit',
    ].join(';\n')
    try {
      await orRollback(client, () => client.query(text))
      return pending.map(({ name }) => name)
    } catch (error) {
      if (isUnexpected(error)) return undefined
      const [only] = pending.length === 1 ? pending : []
      if (only) throw failure(error, only.name, 'up')
      if (isPassing(error)) throw error
      return undefined
    }
  }

  async #run(
    client: pg.ClientBase,
    locator: string,
    searchPath: string,
    pending: readonly TenantMigration[],
  ): Promise<string[]> {
    for (const migration of pending) {
      await run(client, searchPath, migration.name, 'up', migration.up, recording(locator, migration))
    }
    return pending.map(({ name }) => name)
  }

  /** Rolls back the last `steps`, newest first. */
  async down(
    client: pg.ClientBase,
    locator: string,
    searchPath: string,
    steps: number,
    read: StorageRead,
  ): Promise<string[]> {
    const applied = appliedOf(this.#migrations, read.ran)
    assertStorageExists(read)
    const last = lastOf(this.#migrations, applied, steps)
    for (const { name, down } of last) {
      await run(client, searchPath, name, 'down', down, forgetting(locator, name))
    }
    return last.map(({ name }) => name)
  }

  /** @param applied result of `applied` */
  isUpToDate(applied: readonly string[]): boolean {
    return pendingOf(this.#migrations, applied).length === 0
  }

  /** Applied migrations in order; unknown ones are last. */
  async applied(client: pg.ClientBase, locator: string): Promise<string[]> {
    return appliedOf(this.#migrations, await this.records(client, locator))
  }

  /** The same as recorded, without comparison with the configured migrations. */
  async records(client: pg.ClientBase, locator: string): Promise<Ran[]> {
    const { rows } = await client.query('select name, checksum from tenantry.migrations where locator = $1', [locator])
    return inOrder(this.#migrations, rows)
  }

  async forget(client: pg.ClientBase, locator: string): Promise<void> {
    await client.query('delete from tenantry.migrations where locator = $1', [locator])
  }
}

const isText = (migration: TenantMigration): migration is TextMigration => typeof migration.up === 'string'

/** A search path skips a missing schema: migrations would run in the next one. */
function assertStorageExists({ exists }: StorageRead): void {
  if (!exists) throw MigrationFailed('Storage of the tenant not found; no migration was run.')
}

const pathText = (searchPath: string): string => `set local search_path = ${searchPath}`

/**
 * Each step sets the path, as the previous migration may have changed it. The newline ends a trailing comment of a
 * migration.
 */
const stepText = (searchPath: string, step: string, record: string): string =>
  [pathText(searchPath), `${step}\n`, record].join(';\n')

async function run(
  client: pg.ClientBase,
  searchPath: string,
  name: string,
  direction: Direction,
  step: TenantMigration['up'],
  record: string,
): Promise<void> {
  try {
    if (typeof step === 'string') {
      await client.query(stepText(searchPath, step, record))
      return
    }
    await client.query(pathText(searchPath))
    await step(kyselyOn(client))
    await client.query(record)
  } catch (error) {
    throw failure(error, name, direction)
  }
}

const isPassing = (error: unknown): boolean => isWriteOutage(error) || PASSING.has(sqlState(error) ?? '')

/** Converts the error of a failed migration; returns other errors unchanged. */
function failure(error: unknown, name: string, direction: Direction): unknown {
  if (isPassing(error)) return error
  if (hasEnded(error, name)) {
    return MigrationFailed(`The migration ${name} (${direction}) ends its own transaction.`, { cause: error })
  }
  const state = sqlState(error)
  const detail = state ? ` (SQLSTATE ${state})` : ''
  return MigrationFailed(`The migration ${name} (${direction}) failed${detail}; the log has the full text.`, {
    cause: error,
  })
}
