import { z } from 'zod'
import { JobFailure, Reply } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { BackupIncompatible } from '../isolation/copy.ts'
import { NotSupported } from '../isolation/driver.ts'
import { MigrationFailed } from '../migrations/errors.ts'
import { operation } from '../part.ts'
import { TenantExists, TenantNotFound, TenantState } from '../tenant/errors.ts'
import { TenantId, TenantRecord } from '../tenant/tenant.ts'
import { ArchiveMissing } from '../transfers/archive/port.ts'
import { Backup } from '../transfers/backups/resource.ts'
import { Transfer } from '../transfers/model/transfer.ts'
import {
  BackupNotFound,
  BackupsNotConfigured,
  TransferCancelled,
  TransferEnded,
  TransferFailed,
  TransferInProgress,
  TransferNotFound,
} from '../transfers/requests/errors.ts'
import { BackupRequest, CloneRequest, MoveRequest, RestoreRequest } from '../transfers/requests/request-schemas.ts'
import { byId, getTenant, listTenants, tenant } from './tenant-reads.ts'
import { byTransfer, getTransfer, listAllTransfers, listTransfers, transferId } from './transfer-reads.ts'
import { ofLocation, ofNewTenant, untilEnded } from './transfer-wait.ts'

const byBackup = z.object({ id: TenantId, backupId: z.uuid() })

const transferAt = ({ tenantId, id }: Transfer) => ({ location: `/tenants/${tenantId}/transfers/${id}` })

const failureOf = ({ state, failure }: Transfer): JobFailure | undefined =>
  state === 'failed' || state === 'cancelled'
    ? new JobFailure(failure ?? { code: TransferFailed.code, message: `It is ${state}.` })
    : undefined

const startedTransferId = (location: string): string => location.slice(location.lastIndexOf('/') + 1)

const backupId = { name: 'backup', summary: 'id of the backup' }
const target = {
  isolation: { flags: '--isolation <driver>', summary: 'target driver' },
  placement: { flags: '--placement <name>', summary: 'target PostgreSQL server' },
}

const getBackup = operation({
  name: 'backups.get',
  method: 'GET',
  path: '/tenants/{id}/backups/{backupId}',
  summary: 'Read one backup',
  params: byBackup,
  reply: Backup,
  errors: [BackupNotFound],
  command: { name: 'tenant:backup:show', summary: 'Show one backup', arguments: { ...tenant, backupId } },
  handle: ({ transfers }, { params }) => transfers.backups.get(params.id, params.backupId),
})

export const transferOperations = [
  operation({
    name: 'backups.create',
    method: 'POST',
    path: '/tenants/{id}/backup',
    changesStorage: true,
    summary: 'Back up a tenant',
    description: 'A job writes a consistent snapshot of its rows to an archive. The tenant stays in use.',
    params: byId,
    body: BackupRequest,
    bodyOptional: true,
    reply: Backup,
    status: 202,
    errors: [TenantNotFound, TenantState, TransferInProgress, BackupsNotConfigured, NotSupported],
    command: {
      name: 'tenant:backup',
      arguments: tenant,
      options: { note: { flags: '--note <text>', summary: 'note, stored with the backup' } },
      filter: listTenants,
      wait: untilEnded(ofLocation, ({ tenantId, id }, call) =>
        call(getBackup, { params: { id: tenantId, backupId: id } }),
      ),
    },
    handle: async ({ transfers }, { params, body }) => {
      const backup = await transfers.backups.create(params.id, body)
      return new Reply(202, backup, { location: `/tenants/${params.id}/backups/${backup.id}` })
    },
    settled: async ({ transfers }, { tenantId, id }, signal) => {
      const failure = failureOf(await transfers.settled(tenantId, id, signal))
      return failure ?? transfers.backups.get(tenantId, id)
    },
    jobErrors: [TransferFailed, TransferCancelled],
  }),
  operation({
    name: 'backups.list',
    method: 'GET',
    path: '/tenants/{id}/backups',
    summary: "List a tenant's backups, the newest first",
    params: byId,
    query: z.strictObject(Page.shape),
    reply: pageOf(Backup),
    errors: [TenantNotFound],
    command: {
      name: 'tenant:backup:list',
      arguments: tenant,
      rows: ({ data }) =>
        data.map(({ id, state, createdAt, isolation, progress, sizeBytes, isScheduled, note }) => {
          return { id, state, createdAt, isolation, rows: progress.rows, sizeBytes, isScheduled, note }
        }),
    },
    handle: ({ transfers }, { params, query }) => transfers.backups.list(params.id, query),
  }),
  getBackup,
  operation({
    name: 'backups.delete',
    method: 'DELETE',
    path: '/tenants/{id}/backups/{backupId}',
    changesStorage: true,
    summary: 'Delete a backup and its archive',
    params: byBackup,
    reply: z.void(),
    errors: [TenantNotFound, BackupNotFound, TransferInProgress],
    command: {
      name: 'tenant:backup:delete',
      arguments: { ...tenant, backupId },
      question: async ({ params }, call) => {
        const { tenantId, createdAt }: Backup = await call(getBackup, { params })
        return `Delete the backup of ${tenantId} from ${createdAt}?`
      },
      record: (_, { params: { id, backupId } }) => ({ id: backupId, tenantId: id, deleted: true }),
    },
    handle: ({ transfers }, { params }) => transfers.backups.delete(params.id, params.backupId),
  }),
  operation({
    name: 'backups.restore',
    method: 'POST',
    path: '/tenants/{id}/restore',
    changesStorage: true,
    summary: 'Restore a tenant from one of its backups, or rehearse it (test restore)',
    description:
      'A job fills new storage, verifies it, and switches the tenant to it. The former storage is kept for the retention ' +
      'period; `POST /tenants/{id}/move` with `undo` returns to it. `Location` is the transfer, with its progress. With ' +
      '`Prefer: wait` the response is 200 after success, the problem of the failure, or 202 while it runs.',
    params: byId,
    body: RestoreRequest,
    reply: Backup,
    status: 202,
    errors: [
      TenantNotFound,
      TenantState,
      BackupNotFound,
      BackupIncompatible,
      TransferInProgress,
      BackupsNotConfigured,
      NotSupported,
    ],
    command: {
      name: 'tenant:backup:restore',
      arguments: { ...tenant, backupId },
      options: { rehearse: 'restore into temporary storage, compare, and drop it', ...target },
      question: async ({ params: { id = '' }, body: { backupId, rehearse } }, call) => {
        const { createdAt }: Backup = await call(getBackup, { params: { id, backupId } })
        return rehearse ? undefined : `Replace the data of ${id} by its data from ${createdAt}?`
      },
      wait: untilEnded(ofLocation),
    },
    handle: async ({ transfers }, { params, body }) => {
      const { backup, transfer } = await transfers.backups.restore(params.id, body)
      return new Reply(202, backup, transferAt(transfer))
    },
    settled: async ({ transfers }, { tenantId, id }, signal, location) => {
      const failure = failureOf(await transfers.settled(tenantId, startedTransferId(location), signal))
      return failure ?? transfers.backups.get(tenantId, id)
    },
    jobErrors: [TransferFailed, TransferCancelled, ArchiveMissing],
  }),
  operation({
    name: 'tenants.clone',
    createsTenant: true,
    method: 'POST',
    path: '/tenants/{id}/clone',
    changesStorage: true,
    summary: 'Clone this tenant into a new one',
    description:
      'With its rows, unless `data` is false, its metadata and its settings; never its domains, webhooks or SSO. The answer shows ' +
      'the new tenant `provisioning`. With `Prefer: wait` it shows it `active`, or is the problem of the failure.',
    params: byId,
    body: CloneRequest,
    reply: TenantRecord,
    status: 202,
    errors: [TenantNotFound, TenantState, TenantExists, NotSupported],
    command: {
      name: 'tenant:clone',
      summary: 'Clone a tenant into a new one',
      arguments: { ...tenant, name: 'name of the new tenant' },
      options: {
        id: 'id of the new tenant; default: a UUIDv7',
        metadata: 'a JSON object; default: that of the source',
        data: { flags: '--no-data', summary: 'without its rows' },
      },
      wait: untilEnded(ofNewTenant, ({ tenantId }, call) => call(getTenant, { params: { id: tenantId } })),
    },
    handle: async ({ transfers }, { params, body }) => {
      const { tenant } = await transfers.clone(params.id, body)
      return new Reply(202, tenant, { location: `/tenants/${tenant.id}` })
    },
    settled: async (tenants, { id }, signal) => {
      const tenant = await tenants.waitUntilInstalled(id, signal)
      return tenant.failure ? new JobFailure(tenant.failure) : tenant
    },
    jobErrors: [TransferFailed, TransferCancelled, MigrationFailed],
  }),
  operation({
    name: 'tenants.move',
    method: 'POST',
    path: '/tenants/{id}/move',
    changesStorage: true,
    summary: 'Move a tenant to another driver or server, or back',
    description:
      'A job puts the tenant into maintenance, closes its storage, copies and verifies it, and switches the tenant to the copy. The ' +
      'former storage is kept for the retention period; `undo` returns to it, without later changes. ' +
      '`Location` is the transfer, with its progress. With `Prefer: wait` the response is 200 after success, the problem of the ' +
      'failure, or 202 while it runs.',
    params: byId,
    body: MoveRequest,
    reply: TenantRecord,
    status: 202,
    errors: [TenantNotFound, TenantState, TransferInProgress, NotSupported],
    command: {
      name: 'tenant:move',
      summary: 'Move a tenant to another driver or server, or back. It is in maintenance during the move',
      arguments: tenant,
      options: { ...target, undo: 'back to its former storage; later changes are lost' },
      question: async ({ params: { id = '' }, body: { undo, isolation, placement } }, call) => {
        if (undo) return `Move ${id} back to its former storage, without later changes?`
        const from: TenantRecord = await call(getTenant, { params: { id } })
        const [driver, server] = [isolation ?? from.isolation, placement ?? from.placement]
        return `Move ${id} from ${from.isolation} on ${from.placement} to ${driver} on ${server}? It is in maintenance during the move.`
      },
      wait: untilEnded(ofLocation),
    },
    handle: async ({ transfers }, { params, body }) => {
      const { tenant, transfer } = await transfers.move(params.id, body)
      return new Reply(202, tenant, transferAt(transfer))
    },
    settled: async (tenants, { id }, signal, location) => {
      const failure = failureOf(await tenants.transfers.settled(id, startedTransferId(location), signal))
      return failure ?? tenants.get(id)
    },
    jobErrors: [TransferFailed, TransferCancelled],
  }),
  listTransfers,
  listAllTransfers,
  getTransfer,
  operation({
    name: 'transfers.cancel',
    method: 'POST',
    path: '/tenants/{id}/transfers/{transferId}/cancel',
    changesStorage: false,
    summary: 'Cancel a backup, restore, rehearsal, clone or move that has not ended',
    description:
      'Its worker stops, and the former state remains; a move opens the storage that it had closed. The new tenant of a clone becomes ' +
      '`failed`: activate it to start again, or delete it.',
    params: byTransfer,
    reply: Transfer,
    errors: [TenantNotFound, TransferNotFound, TransferEnded],
    command: {
      name: 'tenant:transfer:cancel',
      summary: 'Cancel a backup, restore, clone or move that has not ended; the former state remains',
      arguments: {
        ...tenant,
        transferId,
      },
    },
    handle: ({ transfers }, { params }) => transfers.cancel(params.id, params.transferId),
  }),
]
