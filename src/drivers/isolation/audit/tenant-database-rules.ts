/**
 * Rules for databases of single tenants (database-pg): rules on the server's shared catalog, queried once for all
 * databases, and rules on the catalog of each database.
 */

import type { CatalogRule } from '../catalog/rule.ts'
import { publicRightsRules } from '../roles/public-rights.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { DATABASE_RULES } from './database-rules.ts'
import { leftoverRules, OWNERSHIP_RULES_INSIDE } from './ownership-rules.ts'
import { ROLE_RULES } from './role-rules.ts'
import { SCHEMA_RULES } from './schema-rules.ts'

const OF_TENANTS = `pg_database join (select unnest(locators) from input) as place (locator) on datname = locator`

export const TENANT_DATABASE_RULES: readonly CatalogRule[] = [
  {
    code: 'isolation.database-public',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object, string_agg(distinct lower(privilege_type), ', ') as other, datname as schema
      from ${OF_TENANTS}, aclexplode(coalesce(datacl, acldefault('d', datdba))) where grantee = 0 group by datname`,
    fault: ({ other }) => `gives PUBLIC the right to ${other}`,
    remedy: ({ object }) => `revoke all on ${object} from public`,
  },
  {
    code: 'isolation.foreign-owner',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object, quote_ident(pg_get_userbyid(datdba)) as other, datname as schema
      from ${OF_TENANTS}, input where datdba <> owner`,
    fault: ({ other }) => `belongs to ${other}, and not to the role of \`url\``,
    remedy: ({ object }) => `alter ${object} owner to the role of \`url\``,
  },
  {
    code: 'isolation.database-template',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object, datname as schema from ${OF_TENANTS} where datistemplate`,
    fault: () => 'is a template: roles that may create databases may copy it with its rows',
    remedy: ({ object }) => `alter ${object} is_template false`,
  },
  {
    code: 'isolation.login-setting',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object, setting as other, datname as schema
      from ${OF_TENANTS} join pg_db_role_setting on setdatabase = pg_database.oid, unnest(setconfig) setting
      where setrole = 0 and setting ~ '^(role|app\\.tenant_id)='`,
    fault: ({ other }) => `starts every session with ${other}, as if inside a tenant's scope`,
    remedy: ({ object, other }) => `alter ${object} reset ${other.split('=')[0]}`,
  },
  {
    code: 'isolation.login-search-path',
    severity: 'warn',
    query: `select 'database ' || quote_ident(datname) as object, setting as other, datname as schema
      from ${OF_TENANTS} join pg_db_role_setting on setdatabase = pg_database.oid, input, unnest(setconfig) setting
      where setrole = login and setting like 'search_path=%' and setting <> 'search_path=pg_catalog'`,
    fault: ({ other }) => `gives the login ${other}, which has tables outside of a tenant's scope`,
    remedy: ({ object }) => `alter role of the login in ${object} reset search_path`,
  },
]

/** Rules that only apply to a database with several tenants. */
const SHARED_DATABASE_RULES = new Set([
  'isolation.bound-to-another-tenant',
  'isolation.reads-beyond-tenant',
  'isolation.table-in-public',
])

/** Rules for a login of one database. The diagnosis `logins` compares its settings. */
const LOGIN_RULES = ROLE_RULES.filter(({ code }) => /^isolation\.login-(?!setting$)/.test(code))

/** Rules on the catalog of each database, with the schema of the tables as the tenant's schema. */
export const rulesInside = (server: PostgresServer, login: string): readonly CatalogRule[] => [
  ...(login === server.login ? [] : LOGIN_RULES),
  ...OWNERSHIP_RULES_INSIDE,
  ...leftoverRules(server, login),
  ...publicRightsRules(server.placement, 'tenant'),
  ...[...DATABASE_RULES, ...SCHEMA_RULES].filter(({ code }) => !SHARED_DATABASE_RULES.has(code)),
]
