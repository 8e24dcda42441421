// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted is source
/** Mutants of single drivers: names, privileges, fences. */
import type { SourceMutant } from './mutant.ts'
import { ROW_MUTANTS } from './row-mutants.ts'

const DRIVER = 'drivers/isolation/postgres-driver.ts'
const OWN_STORAGE = 'drivers/isolation/own-storage.ts'
const SCHEMA = 'drivers/isolation/schema-pg.ts'
const RIGHTS = 'drivers/isolation/roles/grants.ts'
const DATABASE = 'drivers/isolation/database-pg.ts'
const TENANT_DATABASE = 'drivers/isolation/server/tenant-database.ts'
const CONNECTIONS = 'drivers/isolation/connections/pool.ts'
const LOGIN_CLIENTS = 'drivers/isolation/roles/login-clients.ts'
const onSchema = { on: ['schema-pg, batch'] }
const onDatabase = { on: ['database-pg, batch'] }

const byPublicRights = {
  tests: [
    'src/drivers/isolation/roles/public-rights.test.ts',
    'src/drivers/isolation/roles/public-rights.placement.test.ts',
    'src/drivers/isolation/roles/public-rights.leftovers.test.ts',
  ],
}

const PUBLIC_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'public: rights not taken',
    story: 'A tenant reads a large object of another tenant.',
    file: 'drivers/isolation/server/postgres-server.ts',
    replace: '; ${adjustPublicRights(this.#placement)}; commit',
    by: '; commit',
    ...byPublicRights,
  },
  {
    name: 'public: sessions of others may be ended',
    story: 'A statement of one tenant cancels statements of another.',
    file: 'drivers/isolation/roles/public-rights.ts',
    replace: 'lowrite|pg_cancel_backend|pg_terminate_backend|',
    by: 'lowrite|',
    ...byPublicRights,
  },
  {
    name: 'public: rights of a tenant’s database kept',
    story: 'SQL of a tenant ends sessions of other databases of the server.',
    file: DATABASE,
    replace: "; ${adjustPublicRights(server.placement, 'tenant')}`",
    by: '`',
    ...byPublicRights,
  },
  {
    name: 'login: refused for what gives no right',
    story: 'A tenant creates a large object, and no tenant is served.',
    file: 'drivers/isolation/roles/login-rights.ts',
    replace: 'and ${GIVES_RIGHTS}',
    by: '',
    ...byPublicRights,
  },
  {
    name: 'login: refused for temporary objects',
    story: 'A function in pg_temp of one tenant blocks the connections of all tenants.',
    file: 'drivers/isolation/roles/login-rights.ts',
    replace: "n.nspname ~ '^pg_temp_')`",
    by: "n.nspname ~ '^never_')`",
    ...byPublicRights,
  },
]

const SCHEMA_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'schema: name without the epoch',
    story: 'A tenant’s former storage is used as its present one.',
    file: SCHEMA,
    replace: '`t${epoch}_${tenantId}`',
    by: '`t_${tenantId}`',
    ...onSchema,
  },
  {
    name: 'schema: two ids, one name',
    story: '"a-b" and "a_b" share a schema.',
    file: SCHEMA,
    replace: '`t${epoch}_${tenantId}`',
    by: "`t${epoch}_${tenantId.replaceAll('-', '_')}`",
    ...onSchema,
  },
  {
    name: 'schema: name cut off',
    story: 'Long ids with a common prefix share a schema.',
    file: SCHEMA,
    replace: '`t${epoch}_${tenantId}`',
    by: '`t${epoch}_${tenantId}_a_longer_name_for_every_schema`.slice(0, 64)',
    ...onSchema,
  },
  {
    name: 'schema: search_path of the first tenant',
    story: 'The search path of the first tenant is used for all.',
    file: DRIVER,
    replace: `  const searchPathOf = (schema: string): string =>
    [schema,`,
    by: `  let first: string | undefined
  const searchPathOf = (schema: string): string =>
    first ??= [schema,`,
    ...onSchema,
  },
  {
    name: 'schema: temporary tables first',
    story: 'Without pg_temp at the end of the path, a temporary table hides the tenant’s table.',
    file: DRIVER,
    replace: `(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']`,
    by: `(extensionsSchema ? [extensionsSchema] : [])]`,
    ...onSchema,
  },
  {
    name: 'schema: public in the path',
    story: 'A table that a tenant lacks is searched in the schema public.',
    file: DRIVER,
    replace: `(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']`,
    by: `(extensionsSchema ? [extensionsSchema] : []), 'public', 'pg_temp']`,
    ...onSchema,
  },
  {
    name: 'schema: no role in the scope',
    story: 'Statements run as the login itself.',
    file: DRIVER,
    replace: 'role: scopeRole,',
    by: `role: 'none',`,
    ...onSchema,
  },
  {
    name: 'schema: missing storage not noticed',
    story: 'A missing schema is skipped in the path, and so is a fenced one.',
    file: SCHEMA,
    replace: 'openSchema: locator',
    by: 'openSchema: null',
    ...onSchema,
  },
  {
    name: 'schema: fence never set',
    story: 'fence() changes nothing at the server.',
    file: SCHEMA,
    replace: `changeUsage(server, schema, 'revoke', 'from')`,
    by: 'Promise.resolve()',
    ...onSchema,
  },
  {
    name: 'schema: fence never lifted',
    story: 'unfence() changes nothing at the server.',
    file: SCHEMA,
    replace: `changeUsage(server, schema, 'grant', 'to')`,
    by: 'Promise.resolve()',
    ...onSchema,
  },
  {
    name: 'schema: fence not told',
    story: 'isFenced() always returns false.',
    file: SCHEMA,
    replace: 'return rows[0]?.open !== true',
    by: 'return false',
    ...onSchema,
  },
  {
    name: 'schema: fence not recognised',
    story: 'mayBeFence() always returns false: the present storage location is not read.',
    file: DRIVER,
    replace: 'StorageFenced.matches(error) || ',
    by: '',
    ...onSchema,
  },
  {
    name: 'schema: fence not looked at',
    story: 'The scope does not detect that the storage is closed.',
    file: 'drivers/isolation/scope/scoped-query.ts',
    replace: `ln(has_schema_privilege($3, $4, 'usage')::int)`,
    by: '0',
    ...onSchema,
  },
  {
    name: 'schema: everybody may use it',
    story: 'USAGE is granted to PUBLIC.',
    file: RIGHTS,
    replace: 'grant usage on schema ${schema} to ${role};',
    by: 'grant usage on schema ${schema} to ${role}, public;',
    ...onSchema,
  },
  {
    name: 'schema: everybody may read',
    story: 'Tables are granted to PUBLIC.',
    file: RIGHTS,
    replace: 'grant select, insert, update, delete on tables to ${role};',
    by: 'grant select, insert, update, delete on tables to ${role}, public;',
    ...onSchema,
  },
  {
    name: 'schema: more rights than needed',
    story: 'Tenants may TRUNCATE and create triggers.',
    file: RIGHTS,
    replace: 'grant select, insert, update, delete on tables to',
    by: 'grant all on tables to',
    ...onSchema,
  },
  {
    name: 'schema: drop leaves it there',
    story: 'A new tenant of the same id finds the rows of the purged tenant.',
    file: SCHEMA,
    replace: 'drop schema if exists ${pg.escapeIdentifier(schema)} cascade',
    by: 'select ${pg.escapeLiteral(schema)}',
    ...onSchema,
  },
  {
    name: 'schema: qualified with another’s name',
    story: 'Table names are qualified with the schema of the first tenant.',
    file: SCHEMA,
    replace: '? ({ locator }) => locator : undefined',
    by: '? ({ locator }) => ((globalThis as any).firstSchema ??= locator) : undefined',
    on: ['schema-pg, qualified'],
  },
]

const DATABASE_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'database: name without the epoch',
    story: 'A tenant’s former database is used as its present one.',
    file: DATABASE,
    replace: '`t${epoch.toString(36)}_${installation}_${tenantId}`',
    by: '`t1_${installation}_${tenantId}`',
    ...onDatabase,
  },
  {
    name: 'database: name without the installation',
    story: 'Two installations on a server share a database for tenants of the same id.',
    file: DATABASE,
    replace: '`t${epoch.toString(36)}_${installation}_${tenantId}`',
    by: '`t${epoch.toString(36)}_${tenantId}`',
    on: ['database-pg, batch'],
    tests: ['src/drivers/isolation/database-pg.test.ts'],
  },
  {
    name: 'database: a client of another database',
    story: 'Without an idle client, a tenant gets an idle client of another tenant.',
    file: 'drivers/isolation/connections/idle-clients.ts',
    replace: `    const clients = this.#byDatabase.get(database)
    if (!clients) return undefined
    const last`,
    by: `    const clients = this.#byDatabase.get(database) ?? [...this.#byDatabase.values()][0]
    if (!clients) return undefined
    const last`,
    ...onDatabase,
  },
  {
    name: 'database: evicted and handed over',
    story: 'The connection that is closed for another tenant remains in the list of idle ones.',
    file: CONNECTIONS,
    replace: 'if (oldest) this.#endAll([oldest])',
    by: 'if (oldest) this.#end(oldest)',
    ...onDatabase,
  },
  {
    name: 'database: connected to the placement’s own',
    story: 'Every tenant is in one database.',
    file: LOGIN_CLIENTS,
    replace: 'database === OWN_DATABASE ? login : withDatabase(login, database)',
    by: 'login',
    ...onDatabase,
  },
  {
    name: 'database: not asked which it is',
    story: 'A pooler connects to another database, and the driver does not detect it.',
    file: LOGIN_CLIENTS,
    replace: 'if (database !== OWN_DATABASE && reached.database !== database) {',
    by: 'if (false) {',
    ...onDatabase,
    tests: ['src/drivers/isolation/database-pg.slow.test.ts'],
  },
  {
    name: 'database: statements go to the placement’s',
    story: 'execute() does not name the database of the tenant.',
    file: DRIVER,
    replace: 'return server.execute(scopeOf(location, schema, server), scopeMode, statement, database)',
    by: 'return server.execute(scopeOf(location, schema, server), scopeMode, statement)',
    ...onDatabase,
  },
  {
    name: 'database: temporary tables first',
    story: 'Without pg_temp at the end of the path, a temporary table hides the tenant’s table.',
    file: DRIVER,
    replace: `(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']`,
    by: `(extensionsSchema ? [extensionsSchema] : [])]`,
    ...onDatabase,
  },
  {
    name: 'database: no role in the scope',
    story: 'Statements run as the login itself.',
    file: DRIVER,
    replace: 'role: scopeRole,',
    by: `role: 'none',`,
    ...onDatabase,
  },
  {
    name: 'database: sessions go on behind a fence',
    story: 'New sessions are rejected, and open sessions remain.',
    file: TENANT_DATABASE,
    replace: '    AWAITED,\n  )\n  await endSessions(server, name)\n',
    by: '    AWAITED,\n  )\n',
    ...onDatabase,
  },
  {
    name: 'database: fence leaves the door open',
    story: 'Sessions are ended, and new ones are accepted.',
    file: TENANT_DATABASE,
    replace: 'if (grantees.length === 0) return',
    by: 'if (grantees) return',
    ...onDatabase,
  },
  {
    name: 'database: fence not recognised',
    story: 'A closed database is not reported as a fence.',
    file: 'drivers/isolation/connections/closed-database.ts',
    replace: 'return isClosed ? StorageFenced(',
    by: 'return false ? StorageFenced(',
    ...onDatabase,
  },
  {
    name: 'database: fence not told',
    story: 'isFenced() always returns false.',
    file: TENANT_DATABASE,
    replace: 'server.ownedWithTimeout(async (client) => !(await isOpen(server, client, name)))',
    by: 'server.ownedWithTimeout(async () => false)',
    ...onDatabase,
  },
  {
    name: 'database: everybody may connect',
    story: 'PUBLIC keeps the privilege CONNECT on a new database.',
    file: TENANT_DATABASE,
    replace: 'revoke all on database ${database} from public; ',
    by: '',
    ...onDatabase,
    tests: ['src/drivers/isolation/database-pg.test.ts'],
  },
  {
    name: 'database: open before it is whole',
    story: 'A tenant reaches a database whose migrations have failed.',
    file: OWN_STORAGE,
    replace: '    await container?.make(storage, options)\n    const ran',
    by: '    await container?.make(storage, options)\n    await container?.open(storage)\n    const ran',
    ...onDatabase,
    tests: ['src/drivers/isolation/database-pg.test.ts'],
  },
]

export const DRIVER_MUTANTS: readonly SourceMutant[] = [
  ...PUBLIC_MUTANTS,
  ...SCHEMA_MUTANTS,
  ...ROW_MUTANTS,
  ...DATABASE_MUTANTS,
]
