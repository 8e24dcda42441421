/**
 * Implements `doctor --prove` for the PostgreSQL drivers: queries the catalog of each server for all tenants, and tries
 * to read rows without a scope. It only reads. A server or database that cannot be queried is a finding, and the others
 * are still examined.
 *
 *   auditRoles       login and scope role, and their rights outside of tenants' rows; for every driver
 *   auditSchemas     + a schema for each tenant
 *   auditRowTables   + the shared tables and their policies
 *   auditDatabases   + a database for each tenant, and its content (tenant-databases.ts)
 */
import type pg from 'pg'
import { type Finding, notExamined } from '../../../kernel/doctor/doctor.ts'
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { CatalogRule } from '../catalog/rule.ts'
import { publicRightsRules } from '../roles/public-rights.ts'
import { auditLinks, auditRows } from '../row-security/apply.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { canary, canaryTargetsIn } from './canary.ts'
import { DATABASE_RULES } from './database-rules.ts'
import { isUsed, type RowTables } from './orphaned-rows.ts'
import { ownLoginRules, sharedLogins } from './own-login-rules.ts'
import { leftoverRules, OWNERSHIP_RULES } from './ownership-rules.ts'
import { ROLE_RULES } from './role-rules.ts'
import { type CatalogSubject, queryCatalog, reading } from './rules.ts'
import { SCHEMA_RULES } from './schema-rules.ts'
import { TENANT_DATABASE_RULES } from './tenant-database-rules.ts'
import { auditInside } from './tenant-databases.ts'

/** Rules for every server, regardless of its drivers. */
const serverRules = (server: PostgresServer): readonly CatalogRule[] => [
  ...ROLE_RULES,
  ...OWNERSHIP_RULES,
  ...leftoverRules(server),
  ...DATABASE_RULES,
  ...publicRightsRules(server.placement, 'own'),
]

export const auditRoles = (server: PostgresServer): Promise<Finding[]> => queryCatalog({ server }, serverRules(server))

export const auditSchemas = (
  servers: Iterable<PostgresServer>,
  locations: AsyncIterable<StorageLocation>,
  { extensionsSchema }: Pick<CatalogSubject, 'extensionsSchema'> = {},
): AsyncIterable<Finding> =>
  onEachServer(servers, locations, async function* (server, tenantOf) {
    const rules = [...serverRules(server), ...SCHEMA_RULES]
    yield* await queryCatalog({ server, tenantOf, extensionsSchema }, rules)
    yield* canary(server, await reading(server, (client) => canaryTargetsIn(client, [...tenantOf.keys()])))
  })

export const auditRowTables = (
  servers: Iterable<PostgresServer>,
  locations: AsyncIterable<StorageLocation>,
  { extensionsSchema, ...tables }: Pick<CatalogSubject, 'extensionsSchema'> & RowTables,
): AsyncIterable<Finding> =>
  onEachServer(servers, locations, async function* (server) {
    yield* await queryCatalog({ server, extensionsSchema }, serverRules(server))
    yield* await server.owned((client) => auditSharedTables(server, client, tables))
    const targets = await reading(server, (client) => canaryTargetsIn(client, [tables.schema], tables.column.name))
    yield* canary(server, targets, { takesRole: true })
  })

/** @param schema with the tables, in each tenant's database */
export const auditDatabases = (
  servers: Iterable<PostgresServer>,
  locations: AsyncIterable<StorageLocation>,
  { schema, extensionsSchema }: Pick<CatalogSubject, 'extensionsSchema'> & { readonly schema: string },
): AsyncIterable<Finding> =>
  onEachServer(servers, locations, async function* (server, tenantOf) {
    yield* await auditRoles(server)
    yield* await queryCatalog({ server, tenantOf }, [...TENANT_DATABASE_RULES, ...ownLoginRules(server)])
    yield* await sharedLogins(server, tenantOf)
    yield* auditInside(server, tenantOf, { schema, extensionsSchema })
  })

/** @param audit receives the tenants of its server, by their locators */
async function* onEachServer(
  servers: Iterable<PostgresServer>,
  locations: AsyncIterable<StorageLocation>,
  audit: (server: PostgresServer, tenantOf: ReadonlyMap<string, string>) => AsyncIterable<Finding>,
): AsyncIterable<Finding> {
  const tenants = new Map<string, Map<string, string>>()
  for await (const { placement, locator, tenantId } of locations) {
    const here = tenants.get(placement) ?? new Map<string, string>()
    tenants.set(placement, here.set(locator, tenantId))
  }
  for (const server of servers) {
    try {
      yield* audit(server, tenants.get(server.name) ?? new Map())
    } catch (error) {
      yield notExamined(`The isolation on "${server.name}"`, error, server.log)
    }
  }
}

async function auditSharedTables(
  server: PostgresServer,
  client: pg.ClientBase,
  { schema, column }: RowTables,
): Promise<Finding[]> {
  if (!(await isUsed(client, schema, server.scopeRole))) return [] // no tenant has been installed there
  const faults = await auditRows(client, schema, server.scopeRole, column)
  const links = await auditLinks(client, schema, server.scopeRole, column)
  const finding =
    (severity: Finding['severity'], code: string) =>
    ({ object, fault, remedy }: (typeof faults)[number]): Finding => ({
      severity,
      code,
      message: `${server.name}: ${object}: ${fault}`,
      remedy,
    })
  return [
    ...faults.map(finding('error', 'isolation.rows-unprotected')),
    ...links.map(finding('info', 'isolation.rows-linked')),
  ]
}
