/** Contract cases of backups and restores. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Case, Part } from './row.ts'
import {
  absent,
  backedUp,
  backingUp,
  cancelled,
  deleted,
  inMemory,
  moving,
  refused,
  UNKNOWN,
  wrongQuery,
} from './transfer-cases.ts'

const ofUnknown: Case = { params: { backupId: UNKNOWN } }
const REMOVED = 'the archive was removed'
const restoring = { body: { backupId: '{backupId}' } } as const

export const backups: Part = {
  operations: {
    'backups.create': {
      success: { body: { note: 'before the import' } },
      wrong: { body: { note: 7 } },
      also: {
        E_TENANT_NOT_FOUND: absent,
        E_TENANT_STATE: deleted,
        E_TRANSFER_IN_PROGRESS: backingUp,
        E_BACKUPS_NOT_CONFIGURED: { plansOfHost: true },
        E_NOT_SUPPORTED: inMemory,
        E_TRANSFER_FAILED: refused,
        E_TRANSFER_CANCELLED: cancelled,
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
        E_NOT_SUPPORTED: { ...backedUp, body: { ...restoring.body, ...inMemory } },
        E_TRANSFER_FAILED: { ...backedUp, ...restoring, ...refused },
        E_TRANSFER_CANCELLED: { ...backedUp, ...restoring, ...cancelled },
        E_ARCHIVE_MISSING: { ...backedUp, ...restoring, given: [REMOVED], waits: true },
      },
    },
  },
  happenings: {
    [REMOVED]: async ({ api: { tenancy } }, { backupId }) => {
      const elsewhere = `update multitenancy.backups set archive = archive || '.gone' where id = $1`
      await tenancy.kernel.database.sql(elsewhere, [backupId])
      return {}
    },
  },
  commands: {
    'tenant:backup': { line: ['{id}', '--note', 'before the import'] },
    'tenant:backup:list': { ...backedUp, line: ['{id}'] },
    'tenant:backup:show': { ...backedUp, line: ['{id}', '{backupId}'] },
    'tenant:backup:run': { line: ['--dry-run'] },
    'tenant:backup:restore': { ...backedUp, line: ['{id}', '{backupId}'] },
    'tenant:backup:download': {
      ...backedUp,
      line: ['{id}', '{backupId}', '--output', join(tmpdir(), 'tenantry-{backupId}.tar.gz')],
    },
    'tenant:backup:adopt': { backup: 'forgotten', line: ['{id}', '{id}/{backupId}.1.tar.gz'] },
    'tenant:backup:delete': { ...backedUp, line: ['{id}', '{backupId}'] },
  },
  events: ['TenantBackedUp'],
  jobs: {
    BackupTenant: { ...backingUp, data: { transferId: '{given}' } },
    RestoreTenant: { data: { transferId: UNKNOWN } },
    RunBackups: { data: {} },
  },
}
