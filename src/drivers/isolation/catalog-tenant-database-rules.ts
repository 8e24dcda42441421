/** The databases that belong to one tenant each (database-pg), as the server's own catalog has them: none is connected to. */
import type { CatalogRule } from './catalog-rules.ts'

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
]
