/**
 * The databases that belong to one tenant each (database-pg): what the server's own catalog has of them, asked for all at once,
 * and what only their own catalogs have, asked in each.
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
    fault: ({ other }) => `gives everybody on the server the right to ${other}`,
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
    fault: () => 'is a template: whoever may create databases may copy it with its rows',
    remedy: ({ object }) => `alter ${object} is_template false`,
  },
  {
    code: 'isolation.login-setting',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object, setting as other, datname as schema
      from ${OF_TENANTS} join pg_db_role_setting on setdatabase = pg_database.oid, unnest(setconfig) setting
      where setrole = 0 and setting ~ '^(role|app\\.tenant_id)='`,
    fault: ({ other }) => `begins every session with ${other}, as if inside a tenant's scope`,
    remedy: ({ object, other }) => `alter ${object} reset ${other.split('=')[0]}`,
  },
  {
    code: 'isolation.login-search-path',
    severity: 'warn',
    query: `select 'database ' || quote_ident(datname) as object, setting as other, datname as schema
      from ${OF_TENANTS} join pg_db_role_setting on setdatabase = pg_database.oid, input, unnest(setconfig) setting
      where setrole = login and setting like 'search_path=%' and setting <> 'search_path=pg_catalog'`,
    fault: ({ other }) => `gives the login ${other}: it looks for tables outside of a tenant's scope`,
    remedy: ({ object }) => `alter role of the login in ${object} reset search_path`,
  },
]

/** What means something only where several tenants are in one database, or is asked of all of them at once. */
const OF_A_SHARED_ONE = new Set([
  'isolation.bound-to-another-tenant',
  'isolation.reads-beyond-tenant',
  'isolation.table-in-public',
])

/** Of a login that belongs to one database. Its settings the diagnosis `logins` compares. */
const LOGIN_RULES = ROLE_RULES.filter(({ code }) => /^isolation\.login-(?!setting$)/.test(code))

/** Asked inside of each, where the tenant's schema is that with its tables. */
export const rulesInside = (server: PostgresServer, login: string): readonly CatalogRule[] => [
  ...(login === server.login ? [] : LOGIN_RULES),
  ...OWNERSHIP_RULES_INSIDE,
  ...leftoverRules(server, login),
  ...publicRightsRules(server.placement, 'tenant'),
  ...[...DATABASE_RULES, ...SCHEMA_RULES].filter(({ code }) => !OF_A_SHARED_ONE.has(code)),
]
