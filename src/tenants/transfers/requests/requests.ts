/**
 * Requests transfers: inserts the row and its job in one transaction. A unique index admits one backup and one
 * replacement of the storage per tenant at a time.
 */
import { uuidv7 } from '../../../kernel/base/ids.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { TenantState } from '../../tenant/errors.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import type { TransferRow } from '../model/tables.ts'
import type { Kind } from '../model/transfer.ts'
import { TransferInProgress } from './errors.ts'
import { JOBS } from './job-types.ts'

export type RequestDependencies = Pick<Kernel, 'database' | 'jobs' | 'clock'>

export interface Requested {
  readonly kind: Kind
  readonly tenantId: string
  readonly isolation: string
  readonly placement: string
  readonly id?: string
  readonly backupId?: string
  readonly sourceId?: string
  readonly withData?: boolean
}

/** In the transaction that holds the tenant's row. `E_TRANSFER_IN_PROGRESS`. */
export async function request(
  { database, jobs, clock }: RequestDependencies,
  { kind, tenantId, isolation, placement, id = uuidv7(), ...details }: Requested,
): Promise<TransferRow> {
  const { backupId = null, sourceId = null, withData = true } = details
  const row = await database
    .query<TenantTables>()
    .insertInto('transfers')
    .values({
      id,
      kind,
      tenantId,
      sourceId,
      backupId,
      withData,
      isolation,
      placement,
      createdAt: clock.now(),
    } as TransferRow)
    .onConflict((conflict) => conflict.doNothing())
    .returningAll()
    .executeTakeFirst()
  if (!row)
    throw TransferInProgress(`Another transfer of tenant "${tenantId}" is in progress. Wait until it has ended.`)
  await jobs.send(JOBS[kind], { transferId: id }, { tenantId, key: id })
  return row
}

/** Throws unless the tenant has readable storage. */
export function assertInstalled({ id, status }: TenantRow): void {
  if (status === 'active' || status === 'suspended') return
  throw TenantState(`Tenant "${id}" is ${status}. Only an active or suspended tenant can be copied.`, {
    extras: { from: status },
  })
}

export const NothingToUndo = (id: string) => TenantState(`Tenant "${id}" has no former storage to return to.`)

/** Keeps a maintenance that an operator starts during a move. In the transaction that holds the tenant's row. */
export async function keepMaintenance(database: RequestDependencies['database'], tenantId: string): Promise<void> {
  await database
    .query<TenantTables>()
    .updateTable('transfers')
    .set({ enteredMaintenance: false })
    .where('tenantId', '=', tenantId)
    .where('state', 'in', ['pending', 'running'])
    .execute()
}
