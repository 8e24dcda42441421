/**
 * Runs the rules of isolation on the catalog of a server, each rule once for a whole database with any number of
 * tenants.
 */
import type pg from 'pg'
import type { Finding } from '../../../kernel/doctor/doctor.ts'
import type { Repair } from '../../../tenants/isolation/driver.ts'
import type { Broken, CatalogRule } from '../catalog/rule.ts'
import { LOCK_BASE_OBJECTS } from '../migrations/postgres-migrator.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'

const STATEMENT_TIMEOUT_MS = 120_000
const BEGIN_REPAIR = `begin; ${LOCK_BASE_OBJECTS}; set local search_path = pg_catalog`

export interface CatalogSubject {
  readonly server: PostgresServer
  /** Tenant of each schema, for a driver that gives each tenant a schema. */
  readonly tenantOf?: ReadonlyMap<string, string>
  readonly extensionsSchema?: string | undefined
  /** A tenant's database, which is queried instead of the placement's. */
  readonly database?: TenantDatabase | undefined
}

export interface TenantDatabase {
  readonly name: string
  readonly tenantId: string
  /** Login of tenants' queries there. */
  readonly login?: string
}

/**
 * Common table expressions for the rules. `tenants`: the schemas of single tenants, including schemas that are not in
 * the registry. `others`: the schemas that belong neither to tenants nor to the system. `shared`: those of
 * rowscope-pg, which have separate rules.
 */
const prelude = (tenants: string): string => `
  with input as (
    select (select oid from pg_roles where rolname = $1) as login, (select oid from pg_roles where rolname = $2) as scope,
      (select oid from pg_roles where rolname = current_user) as owner, $3::text[] as locators, $4::text as extensions),
  tenants as (select n.* from pg_namespace n where nspname <> 'tenantry_rows' and (${tenants})),
  shared as (
    select n.oid from pg_namespace n, input where nspname = 'tenantry_rows' or nspowner = owner and exists (
      select from pg_policy join pg_class c on c.oid = polrelid where relnamespace = n.oid and polname ~ '^tenantry_tenant_')),
  others as (
    select n.* from pg_namespace n
    where nspname !~ '^pg_' and nspname <> 'information_schema' and oid not in (select oid from shared)
      and oid not in (select oid from tenants)),
  extended as (
    select classid, objid from pg_depend where deptype = 'e' and refclassid = 'pg_extension'::regclass),
  granted as (
    select c.oid, c.relnamespace, c.relkind, a.grantee, a.privilege_type, a.is_grantable
    from pg_class c, aclexplode(c.relacl) a
    union all
    select c.oid, c.relnamespace, c.relkind, a.grantee, a.privilege_type, a.is_grantable
    from pg_attribute join pg_class c on c.oid = attrelid, aclexplode(attacl) a)`

const PRELUDE = prelude(`nspname in (select unnest(locators) from input) or oid in (
      select defaclnamespace from pg_default_acl, input, aclexplode(defaclacl) where grantee = scope)`)
/** With only the given schemas, which need not belong to a tenant. */
const PRELUDE_OF_SCHEMAS = prelude('nspname in (select unnest(locators) from input)')

/** Violations of rules by objects of one schema, in the transaction of the client. */
export async function violationsIn(
  client: pg.ClientBase,
  { login, scopeRole }: PostgresServer,
  schema: string,
  extensionsSchema: string | undefined,
  rules: readonly CatalogRule[],
): Promise<string[]> {
  const values = [login, scopeRole, [schema], extensionsSchema ?? null]
  const found: string[] = []
  for (const { code, query, fault } of rules) {
    const text = `${PRELUDE_OF_SCHEMAS}\n${query}`
    const { rows } = await client.query<Broken>({ name: `tenantry rule ${code}`, text, values })
    found.push(...rows.map((broken) => `${broken.object} ${fault(broken)}`))
  }
  return found
}

/** Runs the query of every rule in a read-only transaction. */
export async function queryCatalog(subject: CatalogSubject, rules: readonly CatalogRule[]): Promise<Finding[]> {
  const { server, tenantOf = new Map<string, string>(), extensionsSchema = null, database } = subject
  const values = [database?.login ?? server.login, server.scopeRole, [...tenantOf.keys()], extensionsSchema]
  const where = database ? `${server.name}, database ${database.name}` : server.name
  const applyRules = async (client: pg.ClientBase): Promise<Finding[]> => {
    const findings: Finding[] = []
    for (const { code, severity, query, fault, remedy, repair } of rules) {
      const { rows } = await client.query<Broken>(`${PRELUDE}\n${query}`, values)
      for (const broken of rows) {
        const tenantId = database?.tenantId ?? tenantOf.get(broken.schema ?? '')
        const words = { message: `${where}: ${broken.object} ${fault(broken)}`, remedy: remedy(broken) }
        findings.push({
          severity,
          code,
          ...words,
          ...(tenantId === undefined ? {} : { tenantId }),
          ...(repair && broken.mayRepair ? { fixable: true, subject: repairing(subject, repair) } : {}),
        })
      }
    }
    return findings
  }
  return reading(server, applyRules, database?.name)
}

const repairing =
  ({ server, database }: CatalogSubject, repair: NonNullable<CatalogRule['repair']>): Repair =>
  async () => {
    const work = (client: pg.ClientBase) => inTransaction(client, () => repair(client), { begin: BEGIN_REPAIR })
    await (database ? server.ownedIn(database.name, work) : server.owned(work))
    return 'the remedy was applied if the finding was still true'
  }

/** Reads with an empty search path, so that the catalog returns all names with their schemas. */
export function reading<T>(
  server: PostgresServer,
  work: (client: pg.ClientBase) => Promise<T>,
  database?: string,
): Promise<T> {
  const inside = (client: pg.ClientBase) =>
    inTransaction(client, () => work(client), {
      begin: `begin read only; set local search_path = pg_catalog; set local statement_timeout = ${STATEMENT_TIMEOUT_MS}`,
    })
  return database === undefined ? server.owned(inside) : server.ownedIn(database, inside)
}
