/**
 * Checks of a tenant before a satellite reads or writes rows of the tenant.
 *
 * A satellite writes rows of a tenant in one transaction with `lockTenant`. Then no rows are written for a tenant that
 * is being deleted or survive its purge, and writers of one tenant are serialized.
 */
import type { Database } from '../../kernel/database/database.ts'
import { TenantState, tenantNotFound } from '../tenant/errors.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

/** The status of a tenant; `purged` if only its id remains, undefined for an unknown id. */
export async function tenantStatus(database: Database, id: string): Promise<Status | 'purged' | undefined> {
  const row = await rowOf(database, id).executeTakeFirst()
  return row?.purgedAt ? 'purged' : row?.status
}

/** Throws `E_TENANT_NOT_FOUND` for an unknown or purged tenant. A deleted tenant exists until its purge. */
export async function assertTenantExists(database: Database, id: string): Promise<void> {
  const status = await tenantStatus(database, id)
  if (status === undefined || status === 'purged') throw tenantNotFound(id)
}

/**
 * Locks the tenant until the transaction ends. `E_TENANT_NOT_FOUND`, or `E_TENANT_STATE` for a deleted tenant.
 *
 * The lock is that of an UPDATE, not a shared one: two holders of a shared lock that then change the tenant would
 * deadlock.
 */
export async function lockTenant(database: Database, id: string): Promise<TenantRow> {
  return assertRowOpen(await lockExistingTenant(database, id))
}

/** Like `lockTenant`, but also accepts a deleted tenant: for comparisons. */
export async function lockExistingTenant(database: Database, id: string): Promise<TenantRow> {
  if (!database.inTransaction) throw new Error('lockTenant: without a transaction the lock would end immediately')
  return assertRowExists(id, await rowOf(database, id).forNoKeyUpdate().executeTakeFirst())
}

/** Like `lockTenant`, but without the lock: for changes of existing rows, which a purge removes. */
export async function assertTenantOpen(database: Database, id: string): Promise<void> {
  assertRowOpen(assertRowExists(id, await rowOf(database, id).executeTakeFirst()))
}

function assertRowExists(id: string, row: TenantRow | undefined): TenantRow {
  if (!row || row.purgedAt) throw tenantNotFound(id)
  return row
}

/** Throws `E_TENANT_STATE` for a deleted tenant. */
export function assertRowOpen(row: TenantRow): TenantRow {
  if (row.status === 'deleted') {
    throw TenantState(`Tenant "${row.id}" is deleted and cannot be changed. Restore it first.`, {
      extras: { from: row.status },
    })
  }
  return row
}

const rowOf = (database: Database, id: string) =>
  database.query<TenantTables>().selectFrom('tenants').selectAll().where('id', '=', id)
