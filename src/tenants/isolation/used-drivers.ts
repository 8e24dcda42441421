/** Rejects a start without the isolation driver of a tenant: the process could not serve it, and would report its storage as missing. */
import type { Session } from '../../kernel/database/database.ts'
import { SettingsConflict } from '../../kernel/processes/settings.ts'

/** Their storage ends with the process that has it, so no other process could serve these tenants. */
const IN_MEMORY = ['sqlite-memory']

/** @throws `E_SETTINGS_CONFLICT` */
export async function assertDriversOfTenants(client: Session, names: readonly string[]): Promise<void> {
  const { rows: tables } = await client.query(`select to_regclass('multitenancy.tenants') is not null as exists`)
  if (!tables[0].exists) return
  const { rows } = await client.query(
    'select id, isolation from multitenancy.tenants where purged_at is null and isolation <> all($1::text[]) limit 1',
    [[...names, ...IN_MEMORY]],
  )
  const [tenant] = rows as { id: string; isolation: string }[]
  if (!tenant) return
  throw SettingsConflict(
    `The isolation driver "${tenant.isolation}" of tenant "${tenant.id}" is not configured here. Add it to isolation, or name the ` +
      'definition of the application with --app.',
  )
}
