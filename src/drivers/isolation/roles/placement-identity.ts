/**
 * Identifies the database of a placement: two URLs of one database have one identity, and so have a server and its physical copies
 * (standbys, restored base backups). A database that was restored from a dump has another.
 */
import { withServer } from './tenant-login.ts'

const IDENTITY = `
  select (select system_identifier::text from pg_catalog.pg_control_system()) || '/' || oid as identity
  from pg_catalog.pg_database where datname = current_database()`

/** Null for a server that cannot be asked now. */
export async function placementIdentities(
  placements: Readonly<Record<string, { readonly url: string }>>,
): Promise<Record<string, string | null>> {
  const identified = Object.entries(placements).map(async ([name, { url }]) => [name, await identityOf(url)] as const)
  return Object.fromEntries(await Promise.all(identified))
}

async function identityOf(url: string): Promise<string | null> {
  try {
    return await withServer(url, async (server) => (await server.query(IDENTITY)).rows[0]?.identity ?? null)
  } catch {
    return null // the start reports an unavailable server, and serves the tenants of the others
  }
}
