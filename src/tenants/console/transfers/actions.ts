/** Actions on the storage of a tenant, on backups and transfers. */
import { runAction } from '../../../console/data/queries.ts'
import type { Action } from '../../../console/module.ts'
import type { Tenant } from '../base/tenant.ts'
import type { Backup } from './backup.ts'
import { hasEnded, type TransferOf } from './progress.tsx'
import { text } from './text.ts'

const isStored = ({ status }: Tenant): boolean => status === 'active' || status === 'suspended'

const ofTenant: readonly Action<Tenant>[] = [
  {
    name: 'backups.create',
    title: text.backUp,
    target: 'tenant',
    needs: ['backups.create'],
    isAvailable: isStored,
    run: ({ id, name }) => runAction('backups.create', { params: { id }, body: {} }, { done: text.backedUp(name) }),
  },
  {
    name: 'tenants.clone',
    title: `${text.clone}…`,
    target: 'tenant',
    needs: ['tenants.clone'],
    isAvailable: isStored,
    view: () => import('./clone.tsx'),
  },
  {
    name: 'tenants.move',
    title: `${text.move}…`,
    target: 'tenant',
    needs: ['tenants.move', 'placements.list'],
    isAvailable: isStored,
    view: () => import('./move.tsx'),
  },
  {
    name: 'tenants.undoMove',
    title: `${text.undoMove}…`,
    target: 'tenant',
    needs: ['tenants.move'],
    isDestructive: true,
    isAvailable: isStored,
    view: () => import('./undo-move.tsx'),
  },
]

const ofBackup: readonly Action<Backup>[] = [
  {
    name: 'backups.rehearse',
    title: text.rehearse,
    target: 'backup',
    needs: ['backups.restore'],
    isAvailable: ({ state }) => state === 'completed',
    run: ({ id, tenantId }) =>
      runAction(
        'backups.restore',
        { params: { id: tenantId }, body: { backupId: id, rehearse: true } },
        { done: text.rehearsed },
      ),
  },
  {
    name: 'backups.restore',
    title: `${text.restore}…`,
    target: 'backup',
    needs: ['backups.restore'],
    isDestructive: true,
    isAvailable: ({ state }) => state === 'completed',
    view: () => import('./restore.tsx'),
  },
  {
    name: 'backups.delete',
    title: `${text.deleteBackup}…`,
    target: 'backup',
    needs: ['backups.delete'],
    isDestructive: true,
    isAvailable: ({ state }) => state !== 'running',
    view: () => import('./delete-backup.tsx'),
  },
]

const ofTransfer: readonly Action<TransferOf>[] = [
  {
    name: 'transfers.cancel',
    title: `${text.cancelTransfer}…`,
    target: 'transfer',
    needs: ['transfers.cancel'],
    isDestructive: true,
    isAvailable: (transfer) => !hasEnded(transfer),
    view: () => import('./cancel.tsx'),
  },
]

export const transferActions: readonly Action[] = [...ofTenant, ...ofBackup, ...ofTransfer]
