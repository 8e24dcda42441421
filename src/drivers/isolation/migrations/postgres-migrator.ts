/**
 * Runs the host's migrations in one tenant's schema. What has been run is kept per storage in `tenantry.migrations` of the same
 * database, so that a migration and its record commit together.
 *
 *   up          what the storage has is read, in the caller's transaction; each migration goes with its record
 *   upAtOnce    lock, comparison, migrations, records and commit as one text, for a storage that is as the one before it was:
 *               a process migrates thousands that are alike, and a round trip costs as much as a small migration
 *
 * The second fails before it has run anything when the storage is not like that, and the first is taken. It is also taken when one
 * of several migrations of such a text has failed, and all of them are undone: it tells which one.
 */
import pg from 'pg'
import { isDatabaseUnavailable, sqlState } from '../../../kernel/database/database.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import type { AppliedMigration } from '../../../tenants/tenant/schema-version.ts'
import { orRollback } from '../transactions/owner-transaction.ts'
import { kyselyOn } from './migration-client.ts'
import {
  beginAssertingVersion,
  forgetting,
  hasEnded,
  isUnexpected,
  RECORDS,
  recording,
  type StorageRead,
} from './migration-records.ts'
import { appliedOf, assertKnownMigrations, inOrder, lastOf, pendingOf, type Ran } from './migration-set.ts'

export const LOCK_BASE_OBJECTS = 'select pg_advisory_xact_lock(7367228002)'

/** What a database with tenants' rows needs once; in a transaction, ten processes may do it at the same moment. */
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
  grant usage on schema tenantry to ${pg.escapeIdentifier(scopeRole)}`

type Direction = 'up' | 'down'

/** A migration that can be part of a text. */
type TextMigration = TenantMigration & { readonly up: string }

/** Serialization failure, deadlock, lock not available: the migration may well succeed the next time. */
const PASSING = new Set(['40001', '40P01', '55P03'])

export class PostgresMigrator {
  readonly #migrations: readonly TenantMigration[]
  /** What the last storage that was read had, and what was pending in it. */
  #expected: { readonly state: string; readonly pending: readonly TextMigration[] } | undefined

  constructor(migrations: readonly TenantMigration[]) {
    this.#migrations = migrations
  }

  /** Brings storage that has just been made up to date. Returns everything it has now, in order. */
  async install(client: pg.ClientBase, locator: string, searchPath: string, { ran }: StorageRead): Promise<string[]> {
    const applied = appliedOf(this.#migrations, ran)
    return [...applied, ...(await this.#run(client, locator, searchPath, pendingOf(this.#migrations, applied)))]
  }

  /** Runs these alone, in the order of the folder, in storage that has none of them. */
  async installOnly(client: pg.ClientBase, locator: string, searchPath: string, names: readonly string[]) {
    const wanted = this.#migrations.filter(({ name }) => names.includes(name))
    const unknown = names.find((name) => !wanted.some((one) => one.name === name))
    if (unknown !== undefined) throw MigrationFailed(`The migration ${unknown} is not known here; run what knows it.`)
    await this.#run(client, locator, searchPath, wanted)
  }

  /** Throws `E_BACKUP_INCOMPATIBLE`, naming migrations that cannot be run here as they were. */
  assertKnownMigrations(copied: readonly AppliedMigration[]): void {
    assertKnownMigrations(this.#migrations, copied)
  }

  /** Runs what is pending, in order. Throws `E_MIGRATION_FAILED`, naming the migration. */
  async up(client: pg.ClientBase, locator: string, searchPath: string, read: StorageRead): Promise<string[]> {
    if (this.#migrations.length === 0) return []
    const pending = pendingOf(this.#migrations, appliedOf(this.#migrations, read.ran))
    assertStorageExists(read)
    const ran = await this.#run(client, locator, searchPath, pending)
    // Each has been run by itself: it ends where its text does, and leaves the transaction to us. Only then do they go into one.
    if (pending.length > 0) this.#expected = pending.every(isText) ? { state: read.state, pending } : undefined
    return ran
  }

  /** The same with a transaction of its own. Returns undefined when it has done nothing, and `up` is to be asked. */
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

  /** Takes back the last `steps`, newest first. */
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

  /** @param applied as `applied` answered it. */
  isUpToDate(applied: readonly string[]): boolean {
    return pendingOf(this.#migrations, applied).length === 0
  }

  /** What has been run and not taken back, in order; what is known here no more comes last. */
  async applied(client: pg.ClientBase, locator: string): Promise<string[]> {
    return appliedOf(this.#migrations, await this.records(client, locator))
  }

  /** The same as it is kept, whether it is the same here or not. */
  async records(client: pg.ClientBase, locator: string): Promise<Ran[]> {
    const { rows } = await client.query('select name, checksum from tenantry.migrations where locator = $1', [locator])
    return inOrder(this.#migrations, rows)
  }

  async forget(client: pg.ClientBase, locator: string): Promise<void> {
    await client.query('delete from tenantry.migrations where locator = $1', [locator])
  }
}

const isText = (migration: TenantMigration): migration is TextMigration => typeof migration.up === 'string'

/** A schema that is not there is skipped in a search path: what is run then would end up in the next one. */
function assertStorageExists({ exists }: StorageRead): void {
  if (!exists) throw MigrationFailed('Storage of the tenant not found; no migration was run.')
}

const pathText = (searchPath: string): string => `set local search_path = ${searchPath}`

/** Each has the path set: the migration before may have set another. A line of its own ends the comment that one may end with. */
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

const isPassing = (error: unknown): boolean => isDatabaseUnavailable(error) || PASSING.has(sqlState(error) ?? '')

/** What is told of a migration that failed, and what passes as it is. */
function failure(error: unknown, name: string, direction: Direction): unknown {
  if (isPassing(error)) return error
  if (hasEnded(error, name)) {
    return MigrationFailed(`The migration ${name} (${direction}) ends the transaction it runs in.`, { cause: error })
  }
  const state = sqlState(error)
  const detail = state ? ` (SQLSTATE ${state})` : ''
  return MigrationFailed(`The migration ${name} (${direction}) failed${detail}; the log has the full text.`, {
    cause: error,
  })
}
