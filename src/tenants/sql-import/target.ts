/**
 * Resolves the tables and sequences that an import names to those of the tenant's storage. A name is accepted without a
 * schema, with `public`, as `pg_dump` writes it, and with the schema of the storage itself. Each name is resolved once.
 */
import type { Capabilities, TenantConnection } from '../isolation/driver.ts'
import type { SqlName } from './parser.ts'

interface Catalog {
  /** Returns the storage's schema, and fixes the settings that affect the parsing of an import. */
  readonly open: string
  readonly tables: string
  readonly sequences: string
}

const relation = (kinds: string) =>
  `select relname as name from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where n.nspname = $1 and c.relname = $2 and c.relkind in (${kinds})`

const CATALOGS: Readonly<Record<Capabilities['engine'], Catalog>> = {
  postgres: {
    open: `select current_schema() as schema, set_config('standard_conforming_strings', 'on', true)`,
    tables: relation(`'r', 'p'`),
    sequences: relation(`'S'`),
  },
  sqlite: {
    open: `select 'main' as "schema"`,
    tables: `select name from sqlite_schema where type = 'table' and ?1 = 'main' and name = ?2 collate nocase
      and name not like 'sqlite\\_%' escape '\\'`,
    sequences: `select name from sqlite_schema where ?1 is null and ?2 is null`,
  },
}

const LOCKED = `select from pg_catalog.pg_locks l
  join pg_catalog.pg_class c on c.oid = l.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where l.pid = pg_catalog.pg_backend_pid() and n.nspname = $1 and c.relname = $2`

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

export class ImportTarget {
  readonly #connection: TenantConnection
  readonly #catalog: Catalog
  readonly #schema: string
  readonly #found = new Map<string, string | undefined>()

  private constructor(connection: TenantConnection, catalog: Catalog, schema: string) {
    this.#connection = connection
    this.#catalog = catalog
    this.#schema = schema
  }

  static async open(connection: TenantConnection, engine: Capabilities['engine']): Promise<ImportTarget> {
    const catalog = CATALOGS[engine]
    const { rows } = await connection.query({ text: catalog.open })
    return new ImportTarget(connection, catalog, rows[0].schema)
  }

  /** Quoted, with its schema; undefined for a name that is not a table of the tenant. */
  async table(name: SqlName): Promise<string | undefined> {
    const found = await this.#find('tables', name)
    return found === undefined ? undefined : `${quoted(this.#schema)}.${quoted(found)}`
  }

  /** The server's name; undefined for a name that is not a sequence of the tenant. */
  sequence(name: SqlName): Promise<string | undefined> {
    return this.#find('sequences', name)
  }

  /** Whether this transaction has taken a value from the sequence. */
  async isLocked(sequence: string): Promise<boolean> {
    const { rows } = await this.#connection.query({ text: LOCKED, values: [this.#schema, sequence] })
    return rows.length > 0
  }

  async #find(what: 'tables' | 'sequences', { schema, name }: SqlName): Promise<string | undefined> {
    if (schema !== undefined && schema !== 'public' && schema !== this.#schema) return undefined
    const key = `${what} ${name}`
    if (!this.#found.has(key)) {
      const { rows } = await this.#connection.query({ text: this.#catalog[what], values: [this.#schema, name] })
      this.#found.set(key, rows[0]?.name)
    }
    return this.#found.get(key)
  }
}
