/** Drops a test database and the roles of its tenants, which belong to the whole server. */

import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import type { TestDatabase } from './database.ts'

/** The plain login of another placement may exist on another server, and belong to another test on this one. */
const IS_HERE = `(placement = 'main' or login <> 'tenantry_tenant')`

/** @param serverUrl URL of any other database of the server. */
export async function dropWithRoles(serverUrl: string, { url, drop }: TestDatabase): Promise<void> {
  const log = createLogger({ level: 'silent' })
  const database = new Database({ url, max: 1 }, log)
  const { rows } = await database
    .sql(`select quote_ident(login) as role from multitenancy.placement_logins where password is not null and ${IS_HERE}
      union select quote_ident(scope_role) from multitenancy.placement_logins where ${IS_HERE}
      union select quote_ident(locator) from multitenancy.tenant_logins`)
    .catch(() => ({ rows: [] })) // the migrations have not run
  await database.close()
  await drop()
  const server = new Database({ url: serverUrl, max: 1 }, log)
  const ofTenants = await server.sql(
    `select distinct quote_ident(datname) as name from pg_database, aclexplode(datacl) where grantee::regrole::text = any($1)`,
    [rows.map(({ role }) => role)],
  )
  for (const { name } of ofTenants.rows) await server.sql(`drop database if exists ${name} with (force)`)
  for (const { role } of rows) await server.sql(`drop role if exists ${role}`)
  await server.close()
}
