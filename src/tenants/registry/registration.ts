/** Inserts a new tenant into the registry with the status provisioning and its first storage location. */
import { invalid } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import { TenantExists } from '../tenant/errors.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'
import type { Registry } from './registry.ts'

const FIRST_EPOCH = 1

export interface RegistrationDependencies {
  readonly kernel: Pick<Kernel, 'database' | 'clock'>
  readonly registry: Registry
  readonly storage: Storage
}

export type NewTenantRow = Pick<TenantRow, 'id' | 'name' | 'metadata' | 'domains' | 'isolation' | 'placement'> &
  Partial<Pick<TenantRow, 'clonedFrom'>>

/** In the transaction that also sends the installation job. `E_TENANT_EXISTS`. */
export async function register(
  { kernel, registry, storage }: RegistrationDependencies,
  row: NewTenantRow,
): Promise<TenantRow> {
  const { database, clock } = kernel
  const now = clock.now()
  const driver = storage.driver(row.isolation)
  if (driver.isTenantId?.(row.id) === false) {
    throw invalid([{ path: 'id', message: `is no value of the tenant column of ${row.isolation}` }])
  }
  const inserted = await database
    .query<TenantTables>()
    .insertInto('tenants')
    .values({
      ...row,
      status: 'provisioning',
      locator: driver.locator(row.id, FIRST_EPOCH),
      epoch: FIRST_EPOCH,
      lastEpoch: row.clonedFrom ? 0 : FIRST_EPOCH, // a clone is given its first place like any other that is filled
      createdAt: now,
      updatedAt: now,
    })
    .onConflict((conflict) => conflict.doNothing()) // conflict of the id, or of the locator derived from it
    .returningAll()
    .executeTakeFirst()
  if (!inserted) throw TenantExists(`Tenant id "${row.id}" is taken. Ids are never reused, not even after a purge.`)
  await registry.changed(row.id) // invalidates negative cache entries of its id and its domains
  return inserted
}
