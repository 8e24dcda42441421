import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { operation } from '../part.ts'
import { TenantNotFound } from '../tenant/errors.ts'
import { Placement, TenantId } from '../tenant/tenant.ts'
import { KINDS, STATES, Transfer } from '../transfers/model/transfer.ts'
import { TransferNotFound } from '../transfers/requests/errors.ts'
import { byId, tenant } from './tenant-reads.ts'

export const byTransfer = z.object({ id: TenantId, transferId: z.uuid() })

/** Argument of commands. */
export const transferId = { name: 'transfer', summary: 'id of the transfer; for a backup, the id of the backup' }

/** A row of a table in a terminal. */
function rowOf(transfer: Omit<Transfer, 'tenantId'>) {
  const { id, kind, state, phase, progress, isolation, placement, createdAt, failure } = transfer
  const [{ rows }, reason] = [progress, failure?.message ?? null]
  return { id, kind, state, phase, rows, isolation, placement, createdAt, failure: reason }
}

export const listTransfers = operation({
  name: 'transfers.list',
  method: 'GET',
  path: '/tenants/{id}/transfers',
  summary: 'List copies of a tenant or into it, the newest first',
  params: byId,
  query: z.strictObject(Page.shape),
  reply: pageOf(Transfer),
  errors: [TenantNotFound],
  command: {
    name: 'tenant:transfer:list',
    summary: 'List backups, restores, clones and moves of a tenant, the newest first',
    arguments: tenant,
    rows: ({ data }) => data.map(rowOf),
  },
  handle: ({ transfers }, { params, query }) => transfers.list(params.id, query),
})

export const listAllTransfers = operation({
  name: 'transfers.listAll',
  method: 'GET',
  path: '/transfers',
  summary: 'List backups, restores, rehearsals, clones and moves of all tenants, the newest first',
  query: z.strictObject({
    state: z.enum(STATES).optional(),
    kind: z.enum(KINDS).optional(),
    placement: Placement.optional().meta({ description: 'Target server; for a backup, the source server' }),
    ...Page.shape,
  }),
  reply: pageOf(Transfer),
  command: {
    name: 'transfer:list',
    summary: 'List backups, restores, clones and moves of all tenants, the newest first',
    options: {
      state: `only those in this state: ${STATES.join(', ')}`,
      kind: `only of this kind: ${KINDS.join(', ')}`,
    },
    rows: ({ data }) => data.map(({ tenantId, ...transfer }) => ({ tenantId, ...rowOf(transfer) })),
  },
  handle: ({ transfers }, { query }) => transfers.listAll(query),
})

export const getTransfer = operation({
  name: 'transfers.get',
  method: 'GET',
  path: '/tenants/{id}/transfers/{transferId}',
  summary: 'Read one backup, restore, rehearsal, clone or move, with its progress',
  params: byTransfer,
  reply: Transfer,
  errors: [TransferNotFound],
  command: {
    name: 'tenant:transfer:show',
    summary: 'Show a backup, restore, rehearsal, clone or move, with its progress',
    arguments: { ...tenant, transferId },
  },
  handle: ({ transfers }, { params }) => transfers.get(params.id, params.transferId),
})
