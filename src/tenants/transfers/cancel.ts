/**
 * Ends transfers before their time, whoever is at work on them: that process finds that it holds the transfer no more, and drops what
 * it was making. What the transfer had changed is put back in the transaction that ends it, so everything is as before.
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

const CANCELLED: Failure = { code: TransferCancelled.code, message: 'It was cancelled.' }
const BROUGHT_BACK: Failure = {
  code: TransferCancelled.code,
  message: 'It was under way when the dump was made from which the backoffice was brought back.',
}
const DELETED: Failure = { code: TenantState.code, message: 'The tenant was deleted.' }

/** A clone that is cancelled leaves its tenant failed: activated, it is begun again. `E_TRANSFER_NOT_FOUND`, `E_TRANSFER_ENDED`. */
export async function cancel(
  dependencies: TransferDependencies,
  tenantId: string,
  id: string,
  failure: Failure = CANCELLED,
): Promise<void> {
  const { database, events } = dependencies.kernel
  await dependencies.registry.get(tenantId)
  await database.transaction(async () => {
    await lockedRow(dependencies, tenantId) // first, as whoever switches does
    const [transfer] = isUuid(id) ? await end(dependencies, tenantId, failure, id) : []
    if (!transfer) throw await rejection(dependencies, tenantId, id)
    await HANDLERS[transfer.kind].failPermanently?.(dependencies, transfer, failure)
    await dependencies.registry.changed(tenantId)
    await recordChange(events, { action: 'transfers.cancel', tenantId, target: `transfer:${id}` })
  })
}

/** Whatever is under way. Returns how many that were. */
export async function cancelUnderWay(dependencies: TransferDependencies): Promise<number> {
  const { rows } = await dependencies.kernel.database.sql(
    `select id, tenant_id as "tenantId" from multitenancy.transfers where state in ('pending', 'running')`,
  )
  for (const { id, tenantId } of rows) await cancel(dependencies, tenantId, id, BROUGHT_BACK)
  return rows.length
}

/** All of a tenant that is deleted, in the transaction of its deletion. */
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
    ? TransferEnded(`The ${ended.kind} "${id}" has ended already: it is ${ended.state}.`)
    : TransferNotFound(`The tenant "${tenantId}" has no transfer "${id}".`)
}
