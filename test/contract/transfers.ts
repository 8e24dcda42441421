/** The cases of backups, clones and moves. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Case, Part } from './row.ts'

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const UNKNOWN = '00000000-0000-7000-8000-000000000000'
const backedUp = { backup: 'completed' } as const
const moving = { given: ['POST /tenants/{id}/move {"isolation":"database-pg"}'] } as const
const backingUp = { given: ['POST /tenants/{id}/backup'] } as const
const ofUnknown: Case = { params: { backupId: UNKNOWN } }
const wrongQuery = { query: { colour: 'red' } }
const restoring = { body: { backupId: '{backupId}' } } as const

export const transfers: Part = {
  operations: {
    'backups.create': {
      success: { body: { note: 'before the import' } },
      wrong: { body: { note: 7 } },
      also: {
        E_TENANT_NOT_FOUND: absent,
        E_TENANT_STATE: deleted,
        E_TRANSFER_IN_PROGRESS: backingUp,
        E_BACKUPS_NOT_CONFIGURED: { plansOfHost: true },
      },
    },
    'backups.list': { success: backedUp, wrong: wrongQuery, also: { E_TENANT_NOT_FOUND: absent } },
    'backups.get': {
      success: backedUp,
      wrong: { params: { backupId: 'latest' } },
      also: { E_BACKUP_NOT_FOUND: ofUnknown },
    },
    'backups.delete': {
      success: backedUp,
      wrong: { params: { backupId: 'latest' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, ...ofUnknown },
        E_BACKUP_NOT_FOUND: ofUnknown,
        E_TRANSFER_IN_PROGRESS: { ...backingUp, params: { backupId: '{given}' } },
      },
    },
    'backups.restore': {
      success: { ...backedUp, ...restoring },
      wrong: { body: { backupId: 'latest' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { backupId: UNKNOWN } },
        E_TENANT_STATE: { ...backedUp, ...deleted, ...restoring },
        E_BACKUP_NOT_FOUND: { body: { backupId: UNKNOWN } },
        E_BACKUP_INCOMPATIBLE: { backup: 'failed', ...restoring },
        E_TRANSFER_IN_PROGRESS: { ...backedUp, ...moving, ...restoring },
        E_BACKUPS_NOT_CONFIGURED: { ...backedUp, ...restoring, plansOfHost: true },
      },
    },
    'tenants.clone': {
      success: { body: { name: 'A copy' } },
      wrong: { body: { name: '' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { name: 'A copy' } },
        E_TENANT_STATE: { ...deleted, body: { name: 'A copy' } },
        E_TENANT_EXISTS: { body: { id: '{id}', name: 'A copy' } },
      },
    },
    'tenants.move': {
      success: { body: { isolation: 'database-pg' } },
      wrong: { body: {} },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { isolation: 'database-pg' } },
        E_TENANT_STATE: { ...deleted, body: { isolation: 'database-pg' } },
        E_TRANSFER_IN_PROGRESS: { ...moving, body: { isolation: 'database-pg' } },
      },
    },
    'transfers.list': { success: backedUp, wrong: wrongQuery, also: { E_TENANT_NOT_FOUND: absent } },
    'transfers.get': {
      success: { ...backedUp, params: { transferId: '{backupId}' } },
      wrong: { params: { transferId: 'latest' } },
      also: { E_TRANSFER_NOT_FOUND: { params: { transferId: UNKNOWN } } },
    },
    'transfers.cancel': {
      success: { ...backingUp, params: { transferId: '{given}' } },
      wrong: { params: { transferId: 'latest' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, params: { transferId: UNKNOWN } },
        E_TRANSFER_NOT_FOUND: { params: { transferId: UNKNOWN } },
        E_TRANSFER_ENDED: { ...backedUp, params: { transferId: '{backupId}' } },
      },
    },
  },
  commands: {
    'tenant:backup': { line: ['{id}', '--note', 'before the import'] },
    'tenant:backup:list': { ...backedUp, line: ['{id}'] },
    'tenant:backup:run': { line: ['--dry-run'] },
    'tenant:backup:restore': { ...backedUp, line: ['{id}', '{backupId}'] },
    'tenant:backup:download': {
      ...backedUp,
      line: ['{id}', '{backupId}', '--output', join(tmpdir(), 'tenantry-{backupId}.tar.gz')],
    },
    'tenant:backup:adopt': { backup: 'forgotten', line: ['{id}', '{id}/{backupId}.1.tar.gz'] },
    'tenant:backup:delete': { ...backedUp, line: ['{id}', '{backupId}'] },
    'tenant:clone': { line: ['{id}', 'A copy'] },
    'tenant:move': { line: ['{id}', '--isolation', 'database-pg'] },
    'tenant:transfer:list': { ...backedUp, line: ['{id}'] },
    'tenant:transfer:cancel': { ...backingUp, line: ['{id}', '{given}'] },
  },
  events: ['TenantBackedUp', 'TenantCloned', 'TenantMoved'],
  jobs: {
    BackupTenant: { ...backingUp, data: { transferId: '{given}' } },
    RestoreTenant: { data: { transferId: UNKNOWN } },
    CloneTenant: { data: { transferId: UNKNOWN } },
    MoveTenant: { data: { transferId: UNKNOWN } },
    RecoverTransfers: { data: {} },
    RunBackups: { data: {} },
  },
}
