/** Locators in rows of tenants without storage: the former name of adopted storage is free for the host. */
import type { Database } from '../../kernel/database/database.ts'

/** In the empty row of a released tenant: its id can be adopted again. */
export const releasedLocator = (tenantId: string): string => `released ${tenantId}`

/** In the row of a tenant whose adopted storage was dropped. */
const droppedLocator = (tenantId: string): string => `dropped ${tenantId}`

/** Replaces the name of adopted storage after its drop: a later drop must not remove storage that the host created with this name. */
export async function forgetAdoptedName(
  database: Database,
  { tenantId, locator }: { readonly tenantId: string; readonly locator: string },
): Promise<void> {
  await database.sql(
    `update multitenancy.tenants t set locator = $3 where id = $1 and locator = $2 and exists (
       select from multitenancy.adoptions a where a.tenant_id = t.id and a.locator = t.locator and a.state = 'adopted')`,
    [tenantId, locator, droppedLocator(tenantId)],
  )
}
