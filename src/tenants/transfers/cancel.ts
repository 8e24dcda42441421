/**
 * Cancels transfers in any state. The transaction that ends the transfer also reverts its changes; the working process
 * detects the lost lease and drops the storage that it has created.
 */

import { isUuid } from '../../kernel/base/ids.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { TenantState } from '../tenant/errors.ts'
import type { Failure } from '../tenant/failure.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { lockedRow } from './kinds/cutover.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import { HANDLERS } from './kinds/index.ts'
import type { TransferRow } from './model/tables.ts'
import { TransferCancelled, TransferEnded, TransferNotFound } from './requests/errors.ts'

const CANCELLED: Failure = { code: TransferCancelled.code, message: 'The transfer was cancelled.' }
const BROUGHT_BACK: Failure = {
  code: TransferCancelled.code,
  message: 'The transfer was in progress at the time of the dump from which the backoffice was restored.',
}
const ERASED: Failure = { code: TenantState.code, message: 'The source of the clone is being erased.' }
const DELETED: Failure = { code: TenantState.code, message: 'The tenant was deleted.' }

/**
 * A cancelled clone leaves its tenant failed: activation starts it again. `E_TRANSFER_NOT_FOUND`, `E_TRANSFER_ENDED`.
 */
export async function cancel(
  dependencies: TransferDependencies,
  tenantId: string,
  id: string,
  failure: Failure = CANCELLED,
): Promise<void> {
  await dependencies.registry.get(tenantId)
  await dependencies.kernel.database.transaction(async () => {
    if (!(await endOne(dependencies, tenantId, id, failure))) throw await rejection(dependencies, tenantId, id)
  })
}

/** Cancels the clones in progress of a tenant, in the transaction of its erasure, which holds the tenant's row. */
export async function cancelClonesOf(dependencies: TransferDependencies, sourceId: string): Promise<void> {
  const { rows } = await dependencies.kernel.database.sql(
    `select id, tenant_id as "tenantId" from multitenancy.transfers
     where source_id = $1 and kind = 'clone' and state in ('pending', 'running') order by tenant_id`,
    [sourceId],
  )
  for (const { id, tenantId } of rows) await endOne(dependencies, tenantId, id, ERASED)
}

/** In a transaction. Returns false if the transfer is not in progress. */
async function endOne(
  dependencies: TransferDependencies,
  tenantId: string,
  id: string,
  failure: Failure,
): Promise<boolean> {
  await lockedRow(dependencies, tenantId) // the tenant's row first, in the lock order of the switch
  const [transfer] = isUuid(id) ? await end(dependencies, tenantId, failure, id) : []
  if (!transfer) return false
  await HANDLERS[transfer.kind].failPermanently?.(dependencies, transfer, failure)
  await dependencies.registry.changed(tenantId)
  await recordChange(dependencies.kernel.events, {
    action: 'transfers.cancel',
    tenantId,
    target: `transfer:${id}`,
  })
  return true
}

/** Cancels all transfers in progress. Returns their number. */
export async function cancelUnderWay(dependencies: TransferDependencies): Promise<number> {
  const { rows } = await dependencies.kernel.database.sql(
    `select id, tenant_id as "tenantId" from multitenancy.transfers where state in ('pending', 'running')`,
  )
  for (const { id, tenantId } of rows) await cancel(dependencies, tenantId, id, BROUGHT_BACK)
  return rows.length
}

/** Cancels all transfers of a deleted tenant, in the transaction of its deletion. */
export async function cancelAll(dependencies: TransferDependencies, tenantId: string): Promise<void> {
  await end(dependencies, tenantId, DELETED)
}

async function end(
  dependencies: TransferDependencies,
  tenantId: string,
  failure: Failure,
  id?: string,
): Promise<TransferRow[]> {
  let update = dependencies.kernel.database
    .query<TenantTables>()
    .updateTable('transfers')
    .set(({ fn }) => ({ state: 'cancelled', failure, finishedAt: fn<Date>('now'), worker: null }))
    .where('tenantId', '=', tenantId)
    .where('state', 'in', ['pending', 'running'])
  if (id) update = update.where('id', '=', id)
  const ended = await update.returningAll().execute()
  for (const transfer of ended) await HANDLERS[transfer.kind].release?.(dependencies, transfer)
  return ended
}

async function rejection({ kernel }: TransferDependencies, tenantId: string, id: string): Promise<Error> {
  const query = kernel.database
    .query<TenantTables>()
    .selectFrom('transfers')
    .select(['kind', 'state'])
    .where('id', '=', id)
    .where('tenantId', '=', tenantId)
  const ended = isUuid(id) ? await query.executeTakeFirst() : undefined
  return ended
    ? TransferEnded(`Transfer "${id}" (${ended.kind}) has already ended: it is ${ended.state}.`)
    : TransferNotFound(`Transfer "${id}" of tenant "${tenantId}" not found.`)
}
