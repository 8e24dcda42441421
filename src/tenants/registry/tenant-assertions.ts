/**
 * What a satellite asks about a tenant before it reads or writes rows of its own.
 *
 * A satellite that keeps rows of a tenant writes them in one transaction with `lockTenant`: then none are written for a tenant
 * that is being deleted, so none are left behind by its purge, and two writers of one tenant follow one another.
 */
import type { Database } from '../../kernel/database/database.ts'
import { TenantState, tenantNotFound } from '../tenant/errors.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

/** The status of a tenant; `purged` when only its id is left, undefined when there never was one. */
export async function tenantStatus(database: Database, id: string): Promise<Status | 'purged' | undefined> {
  const row = await rowOf(database, id).executeTakeFirst()
  return row?.purgedAt ? 'purged' : row?.status
}

/** Throws `E_TENANT_NOT_FOUND` unless the tenant is there; a deleted one is, until it is purged. */
export async function assertTenantExists(database: Database, id: string): Promise<void> {
  const status = await tenantStatus(database, id)
  if (status === undefined || status === 'purged') throw tenantNotFound(id)
}

/**
 * Locks the tenant until the transaction ends. `E_TENANT_NOT_FOUND`, or `E_TENANT_STATE` when it is deleted.
 *
 * The lock is the one an UPDATE takes, not a shared one: two holders of a shared lock who then change the tenant would wait
 * for each other.
 */
export async function lockTenant(database: Database, id: string): Promise<TenantRow> {
  return assertRowOpen(await lockExistingTenant(database, id))
}

/** As `lockTenant`, but a deleted tenant as well: for comparing what it is. */
export async function lockExistingTenant(database: Database, id: string): Promise<TenantRow> {
  if (!database.inTransaction) throw new Error('lockTenant: without a transaction the lock would end at once')
  return assertRowExists(id, await rowOf(database, id).forNoKeyUpdate().executeTakeFirst())
}

/** As `lockTenant`, but without the lock: for rows that the tenant has already, which go with it. */
export async function assertTenantOpen(database: Database, id: string): Promise<void> {
  assertRowOpen(assertRowExists(id, await rowOf(database, id).executeTakeFirst()))
}

function assertRowExists(id: string, row: TenantRow | undefined): TenantRow {
  if (!row || row.purgedAt) throw tenantNotFound(id)
  return row
}

function assertRowOpen(row: TenantRow): TenantRow {
  if (row.status === 'deleted') {
    throw TenantState(`The tenant "${row.id}" is deleted and cannot be changed; restore it first.`, {
      extras: { from: row.status },
    })
  }
  return row
}

const rowOf = (database: Database, id: string) =>
  database.query<TenantTables>().selectFrom('tenants').selectAll().where('id', '=', id)
