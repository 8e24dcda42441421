/** Requests the installation of a tenant: a transfer for a clone, otherwise the provisioning job. */
import type { Database } from '../../../kernel/database/database.ts'
import { TenantState } from '../../tenant/errors.ts'
import { InstallTenant } from '../../tenant/job-types.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import { type RequestDependencies, request } from './requests.ts'

/** In the transaction that sets the status to provisioning. */
export async function requestInstallation(kernel: RequestDependencies, row: TenantRow): Promise<void> {
  const { id, clonedFrom } = row
  if (clonedFrom) await requestCloneAgain(kernel, row)
  else await kernel.jobs.send(InstallTenant, { tenantId: id }, { tenantId: id, key: id })
}

async function requestCloneAgain(
  kernel: RequestDependencies,
  { id, clonedFrom, isolation, placement }: TenantRow,
): Promise<void> {
  const source = await sourceOf(kernel.database, clonedFrom)
  const last = await kernel.database
    .query<TenantTables>()
    .selectFrom('transfers')
    .select('withData')
    .where('tenantId', '=', id)
    .where('kind', '=', 'clone')
    .orderBy('createdAt', 'desc')
    .limit(1)
    .executeTakeFirst()
  await request(kernel, {
    kind: 'clone',
    tenantId: id,
    sourceId: source.id,
    withData: last?.withData ?? true,
    isolation,
    placement,
  })
}

/** The cloned tenant. `E_TENANT_STATE` if it is deleted. */
export async function sourceOf(database: Database, id: string | null): Promise<TenantRow> {
  const source = await database
    .query<TenantTables>()
    .selectFrom('tenants')
    .selectAll()
    .where('id', '=', id)
    .where('status', '!=', 'deleted')
    .executeTakeFirst()
  if (source) return source
  throw TenantState(
    `Tenant "${id}", the source of the clone, is deleted. Restore it if that is still possible, or delete the clone.`,
  )
}
