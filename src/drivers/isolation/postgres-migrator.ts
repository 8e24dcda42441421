/**
 * Runs the host's migrations in one tenant's schema, inside the caller's transaction. What has been run is kept per storage in
 * `tenantry.migrations` of the same database, so that a migration and its record commit together.
 */
import pg from 'pg'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database.ts'
import type { TenantMigration } from '../../tenants/migrations.ts'
import { kyselyOn } from './migration-client.ts'
import { appliedOf, lastOf, MigrationFailed, pendingOf } from './migration-set.ts'
import { isIdle } from './scoped-connection.ts'

/** What a database with tenants' rows needs once; in a transaction, ten processes may do it at the same moment. */
export const baseObjects = (scopeRole: string): string => `
  select pg_advisory_xact_lock(7367228002);
  create schema if not exists tenantry;
  create table if not exists tenantry.migrations (
    locator text not null, name text not null, checksum text not null,
    applied_at timestamptz(3) not null default now(), primary key (locator, name));
  create or replace function tenantry.current_tenant() returns text stable parallel safe language plpgsql as $function$
    declare tenant text := current_setting('app.tenant_id', true);
    begin
      if coalesce(tenant, '') = '' then
        raise insufficient_privilege using message = 'no tenant is set: this was asked outside of a tenant''s scope';
      end if;
      return tenant;
    end $function$;
  grant usage on schema tenantry to ${pg.escapeIdentifier(scopeRole)}`

/** The same by itself. */
export const prepareStatements = (scopeRole: string): string => `begin; ${baseObjects(scopeRole)}; commit`

type Direction = 'up' | 'down'

/** What the transaction that a migration runs in does in the round trips that it has anyway. */
export interface Surroundings {
  /** Answers to what `reading` asks, read when the storage's lock was held. */
  readonly read: { readonly exists: boolean; readonly ran: { readonly name: string; readonly checksum: string }[] }
  /** Runs a statement together with the commit. */
  atEnd(sql: string): void
}

/** What has been run in a storage, and whether there is one. */
export const reading = (locator: string): string => `
  select exists (select from pg_namespace where nspname = ${pg.escapeLiteral(locator)}) as exists, coalesce(
    (select json_agg(json_build_object('name', name, 'checksum', checksum)) from tenantry.migrations
     where locator = ${pg.escapeLiteral(locator)}), '[]') as ran`

/** Serialization failure, deadlock, lock not available: the migration may well succeed the next time. */
const PASSING = new Set(['40001', '40P01', '55P03'])

export class PostgresMigrator {
  readonly #migrations: readonly TenantMigration[]

  constructor(migrations: readonly TenantMigration[]) {
    this.#migrations = migrations
  }

  /** Brings storage that has just been made up to date. Answers everything it has now, in order. */
  async install(client: pg.ClientBase, locator: string, searchPath: string, around: Surroundings): Promise<string[]> {
    const applied = appliedOf(this.#migrations, around.read.ran)
    return [...applied, ...(await this.#run(client, locator, searchPath, applied, around))]
  }

  /** Runs what is pending, in order. Throws `E_MIGRATION_FAILED`, naming the migration. */
  async up(client: pg.ClientBase, locator: string, searchPath: string, around: Surroundings): Promise<string[]> {
    if (this.#migrations.length === 0) return []
    const applied = appliedOf(this.#migrations, around.read.ran)
    refuseMissing(around)
    return this.#run(client, locator, searchPath, applied, around)
  }

  async #run(
    client: pg.ClientBase,
    locator: string,
    searchPath: string,
    applied: readonly string[],
    { atEnd }: Surroundings,
  ): Promise<string[]> {
    const pending = pendingOf(this.#migrations, applied)
    if (pending.length === 0) return []
    for (const { name, up } of pending) await run(client, searchPath, name, 'up', up)
    const rows = pending.map((migration) =>
      [locator, migration.name, migration.checksum].map((value) => pg.escapeLiteral(value)).join(', '),
    )
    atEnd(`insert into tenantry.migrations (locator, name, checksum) values (${rows.join('), (')})`)
    return pending.map(({ name }) => name)
  }

  /** Takes back the last `steps`, newest first. */
  async down(
    client: pg.ClientBase,
    locator: string,
    searchPath: string,
    steps: number,
    around: Surroundings,
  ): Promise<string[]> {
    const applied = appliedOf(this.#migrations, around.read.ran)
    refuseMissing(around)
    const last = lastOf(this.#migrations, applied, steps)
    for (const { name, down } of last) {
      await run(client, searchPath, name, 'down', down)
      await client.query('delete from tenantry.migrations where locator = $1 and name = $2', [locator, name])
    }
    return last.map(({ name }) => name)
  }

  /** @param applied as `applied` answered it. */
  isUpToDate(applied: readonly string[]): boolean {
    return pendingOf(this.#migrations, applied).length === 0
  }

  /** What has been run and not taken back, in order; what is known here no more comes last. */
  async applied(client: pg.ClientBase, locator: string): Promise<string[]> {
    const { rows } = await client.query('select name, checksum from tenantry.migrations where locator = $1', [locator])
    return appliedOf(this.#migrations, rows)
  }

  async forget(client: pg.ClientBase, locator: string): Promise<void> {
    await client.query('delete from tenantry.migrations where locator = $1', [locator])
  }
}

/** A schema that is not there is skipped in a search path: what is run then would end up in the next one. */
function refuseMissing({ read }: Surroundings): void {
  if (!read.exists) throw MigrationFailed('The storage of the tenant is not there; nothing was run.')
}

async function run(
  client: pg.ClientBase,
  searchPath: string,
  name: string,
  direction: Direction,
  step: TenantMigration['up'],
): Promise<void> {
  const here = `set local search_path = ${searchPath}` // each time: the migration before may have set another
  try {
    if (typeof step === 'string') await client.query(`${here};\n${step}`)
    else await client.query(here).then(() => step(kyselyOn(client)))
  } catch (error) {
    const state = sqlState(error)
    if (isDatabaseUnavailable(error) || (state && PASSING.has(state))) throw error
    const detail = state ? ` (SQLSTATE ${state})` : ''
    throw MigrationFailed(`The migration ${name} (${direction}) failed${detail}; the log has the full text.`, {
      cause: error,
    })
  }
  if (isIdle(client)) throw MigrationFailed(`The migration ${name} (${direction}) ends the transaction it runs in.`)
}
