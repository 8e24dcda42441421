/**
 * Runs statements of an imported file with the rights of a temporary role. The role may create objects in the schema of
 * one tenant, and has no other right than those of PUBLIC.
 *
 * - Expressions of a file are evaluated during its import: checks, generated columns, indexes, materialised views. The
 *   owner of the storage may be a superuser.
 * - The statements run inside a SECURITY DEFINER function of the role. There PostgreSQL rejects SET ROLE, RESET ROLE and
 *   SET SESSION AUTHORIZATION.
 * - The role has no right on the schema of this function, so that it cannot replace the function.
 * - No other session sees the role: it is created and dropped in the transaction of the import.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { NotSupported } from '../../../tenants/isolation/driver.ts'
import type { TableImport } from '../../../tenants/isolation/table-import.ts'
import { isIdle } from '../scope/scoped-connection.ts'

const LOCK_TIMEOUT_MS = 10_000
const OBJECT_IN_USE = '55006'

const SAVEPOINTS = {
  set: 'savepoint imported_rows',
  release: 'release savepoint imported_rows',
  'roll back': 'rollback to savepoint imported_rows',
} as const

export interface RestrictedSchema {
  /** The schema of the tenant's tables, unquoted. */
  readonly schema: string
  /** As SQL. */
  readonly searchPath: string
}

export class RestrictedRole implements TableImport {
  readonly schema: string
  /** Unquoted. */
  readonly name: string
  readonly #client: pg.ClientBase
  readonly #call: string

  private constructor(client: pg.ClientBase, schema: string, name: string) {
    this.schema = schema
    this.name = name
    this.#client = client
    this.#call = `select ${pg.escapeIdentifier(name)}.run($1) as rows`
  }

  /** In the transaction of the import. */
  static async create(client: pg.ClientBase, { schema, searchPath }: RestrictedSchema): Promise<RestrictedRole> {
    const { rows } = await client.query(
      'select rolcreaterole or rolsuper as "mayMake" from pg_roles where rolname = current_user',
    )
    if (!rows[0].mayMake) {
      throw NotSupported(
        'An import of tables needs a temporary role, and the role of `url` may not create roles. Grant it CREATEROLE for the import.',
      )
    }
    const name = `tenantry_import_${randomBytes(6).toString('hex')}`
    const [role, tables] = [name, schema].map((one) => pg.escapeIdentifier(one))
    await client.query(`
      create role ${role} nologin nosuperuser nocreatedb nocreaterole noinherit nobypassrls;
      grant ${role} to current_user;
      grant usage, create on schema ${tables} to ${role};
      create schema ${role};
      create function ${role}.run(statement text) returns bigint language plpgsql security definer
        set search_path = ${searchPath} set standard_conforming_strings = on set check_function_bodies = off
        set client_encoding = 'UTF8' set row_security = on as $function$
        declare
          affected bigint;
        begin
          execute statement;
          get diagnostics affected = row_count;
          return affected;
        end $function$;
      grant create on schema ${role} to ${role};
      alter function ${role}.run(text) owner to ${role};
      revoke all on schema ${role} from ${role}`)
    return new RestrictedRole(client, schema, name)
  }

  get inTransaction(): boolean {
    return !isIdle(this.#client)
  }

  async run(text: string): Promise<number> {
    try {
      const { rows } = await this.#client.query(this.#call, [text])
      return Number(rows[0].rows)
    } catch (error) {
      throw inStatement(error, text)
    }
  }

  async savepoint(how: keyof typeof SAVEPOINTS): Promise<void> {
    await this.#client.query(SAVEPOINTS[how])
  }

  /**
   * Runs the checks of a commit with the rights of the role, closes cursors, which PostgreSQL reads at the commit, and
   * resets the settings that statements may have changed. No statement of the file may follow.
   */
  async end(): Promise<void> {
    await this.run('set constraints all immediate')
    await this.#client.query(
      `close all; reset all; set local lock_timeout = ${LOCK_TIMEOUT_MS}; set local search_path = pg_catalog, pg_temp`,
    )
    await this.#client.query(`drop schema ${pg.escapeIdentifier(this.name)} cascade`)
  }

  /**
   * Gives the objects of the role to the current user, and drops the role. Throws `E_INVALID_REQUEST` if a trigger of
   * the file would run at the commit: ALTER TABLE rejects tables with pending events, REASSIGN OWNED does not.
   */
  async leave(): Promise<void> {
    const role = pg.escapeIdentifier(this.name)
    await this.#client.query(ownTables(this.name)).catch(pendingEvents)
    await this.#client.query(`reassign owned by ${role} to current_user; drop owned by ${role}; drop role ${role}`)
  }
}

/** @param role unquoted */
const ownTables = (role: string): string => `do $do$
  declare
    own pg_catalog.oid;
  begin
    for own in
      select c.oid from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.oid = c.relowner
      where r.rolname = ${pg.escapeLiteral(role)} and c.relkind in ('r', 'p')
    loop
      execute pg_catalog.format('alter table %s owner to current_user', own::pg_catalog.regclass);
    end loop;
  end $do$`

function pendingEvents(error: unknown): never {
  if (sqlState(error) !== OBJECT_IN_USE) throw error
  throw InvalidRequest(
    'A deferred trigger of the file would run again at the commit. Remove the trigger, or create it by a migration.',
    { cause: error },
  )
}

/** An error inside the function has the position in the statement as the internal position. */
function inStatement(error: unknown, text: string): unknown {
  if (!(error instanceof pg.DatabaseError)) return error
  error.position = error.internalQuery === text ? error.internalPosition : undefined
  return error
}
