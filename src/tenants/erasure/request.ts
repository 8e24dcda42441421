/**
 * Requests an erasure in one transaction: the tenant is deleted and claimed for its removal, its transfers and clones in progress are
 * cancelled, its storage is fenced, and the job is sent. From this commit on, restore, clone, move and backup are rejected, and its id stays taken.
 */
import { currentContext } from '../../kernel/base/context.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Transitions } from '../lifecycle/transitions.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantState, tenantNotFound } from '../tenant/errors.ts'
import type { Transfers } from '../transfers/transfers.ts'
import { EraseRequest } from './erasure.ts'
import { ConfirmationMismatch } from './errors.ts'
import { EraseTenant } from './job-types.ts'
import { COLUMNS, type ErasureRow } from './tables.ts'

export interface RequestDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly transitions: Transitions
  readonly transfers: Pick<Transfers, 'cancelClonesOf'>
}

/**
 * Returns the new erasure. A repeated request has no effect. `E_CONFIRMATION_MISMATCH`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` if the erasure has another choice
 * for the payment provider. A tenant that was purged can be erased: audit entries and webhook deliveries outlive a purge.
 */
export async function requestErasure(
  dependencies: RequestDependencies,
  id: string,
  options: EraseRequest,
): Promise<ErasureRow | undefined> {
  const { confirm, reason, billing } = parsed(EraseRequest, options)
  if (confirm !== id) throw ConfirmationMismatch('confirm must be equal to the id of the tenant. Nothing was changed.')
  const { kernel, registry } = dependencies
  const { database, clock, jobs, events } = kernel
  return database.transaction(async () => {
    const { rows } = await database.sql(
      'select purged_at as "purgedAt", purge_started_at as "purgeStartedAt" from multitenancy.tenants where id = $1 for no key update',
      [id],
    )
    if (!rows[0]) throw tenantNotFound(id)
    await assertNoAdoptionInProgress(database, id)
    const { actor } = currentContext()
    const now = clock.now()
    // Equal to the start of the removal only if this request starts it.
    const requestedAt = now.getTime() === rows[0].purgeStartedAt?.getTime() ? new Date(now.getTime() + 1) : now
    const inserted = await database.sql(
      `insert into multitenancy.erasures (tenant_id, reason, billing, requested_by, requested_at) values ($1, $2, $3, $4, $5)
       on conflict do nothing returning ${COLUMNS}`,
      [id, reason, billing, JSON.stringify(actor), requestedAt],
    )
    const [row] = inserted.rows
    if (!row) return assertSame(dependencies, id, billing)
    if (rows[0].purgedAt || !(await claim(dependencies, id, requestedAt))) await registry.changed(id)
    await dependencies.transfers.cancelClonesOf(id)
    await recordChange(events, {
      action: 'tenants.erase',
      tenantId: id,
      target: `tenant:${id}`,
      after: { reason, billing },
    })
    await jobs.send(EraseTenant, { tenantId: id }, { key: id })
    return row
  })
}

/** Deletes the tenant if it is not deleted, and excludes its restoration. Returns false if it was deleted before. */
async function claim(
  { kernel: { database }, transitions }: RequestDependencies,
  id: string,
  now: Date,
): Promise<boolean> {
  const { changed } = await transitions.run(id, 'delete', ({ from }) => ({
    set: { statusBefore: from, deletedAt: now, purgeAt: now, purgeStartedAt: now },
    event: { purgeAt: now.toISOString() },
  }))
  if (changed) return true
  await database.sql(
    'update multitenancy.tenants set purge_started_at = coalesce(purge_started_at, $2) where id = $1',
    [id, now],
  )
  return false
}

/**
 * A released storage belongs to another application, as does that of an adoption which the server has not committed. An adoption and a
 * release lock the row of the tenant, too.
 */
async function assertNoAdoptionInProgress(database: Kernel['database'], id: string): Promise<void> {
  const { rows } = await database.sql(
    `select state from multitenancy.adoptions where tenant_id = $1 and state in ('adopting', 'releasing')
     union all select 'adopting' from multitenancy.row_adoption_tenants where tenant_id = $1
     union all select state from multitenancy.row_adoptions join multitenancy.tenants using (isolation, placement)
     where id = $1 and purged_at is null and state = 'releasing'`,
    [id],
  )
  if (rows.length === 0) return
  const [what, noun] = rows[0].state === 'adopting' ? ['adopted', 'adoption'] : ['released', 'release']
  throw TenantState(`Tenant "${id}" is being ${what}. Erase it when the ${noun} has ended.`)
}

async function assertSame({ kernel }: RequestDependencies, id: string, billing: string): Promise<undefined> {
  const { rows } = await kernel.database.sql('select billing from multitenancy.erasures where tenant_id = $1', [id])
  if (rows[0].billing === billing) return undefined
  throw TenantState(`The erasure of tenant "${id}" was requested with "billing": "${rows[0].billing}".`)
}
