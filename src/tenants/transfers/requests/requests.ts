/**
 * Transfers as they are asked for: the row that says what is to be done, and the job that does it, in one transaction. Of one
 * tenant one backup is made at a time, and its storage is replaced by one transfer at a time: an index holds that, whoever asks.
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
  if (!row) throw TransferInProgress(`Another transfer of "${tenantId}" is in progress; wait until it has ended.`)
  await jobs.send(JOBS[kind], { transferId: id }, { tenantId, key: id })
  return row
}

/** Throws unless the tenant has storage that can be read. */
export function assertInstalled({ id, status }: TenantRow): void {
  if (status === 'active' || status === 'suspended') return
  throw TenantState(`The tenant "${id}" is ${status}; only an active or suspended one can be copied.`, {
    extras: { from: status },
  })
}

export const NothingToUndo = (id: string) =>
  TenantState(`The tenant "${id}" has left no storage that it could go back to, or not any more.`)

/** What an operator says during a move stays when that ends. In the transaction that holds the tenant's row. */
export async function keepMaintenance(database: RequestDependencies['database'], tenantId: string): Promise<void> {
  await database
    .query<TenantTables>()
    .updateTable('transfers')
    .set({ enteredMaintenance: false })
    .where('tenantId', '=', tenantId)
    .where('state', 'in', ['pending', 'running'])
    .execute()
}
