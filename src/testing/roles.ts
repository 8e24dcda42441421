/** The roles of an installation belong to the server and outlive its database: a test that drops one drops both. */
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'
import type { TestDatabase } from './database.ts'

/** @param serverUrl of any other database there. */
export async function dropWithRoles(serverUrl: string, { url, drop }: TestDatabase): Promise<void> {
  const log = createLogger({ level: 'silent' })
  const database = new Database({ url, max: 1 }, log)
  const { rows } = await database
    .sql(`select quote_ident(login) as role from multitenancy.placement_logins where password is not null
      union select quote_ident(scope_role) from multitenancy.placement_logins`)
    .catch(() => ({ rows: [] })) // it did not come so far
  await database.close()
  await drop()
  const server = new Database({ url: serverUrl, max: 1 }, log)
  for (const { role } of rows) await server.sql(`drop role if exists ${role}`)
  await server.close()
}
