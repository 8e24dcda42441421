/** Contract cases of clones, moves and transfers of all kinds; backups.ts has backups and restores. */
import { FAILING, type Part } from './row.ts'
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

export const transfers: Part = {
  operations: {
    'tenants.clone': {
      success: { body: { name: 'A copy' } },
      wrong: { body: { name: '' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { name: 'A copy' } },
        E_TENANT_STATE: { ...deleted, body: { name: 'A copy' } },
        E_TENANT_EXISTS: { body: { id: '{id}', name: 'A copy' } },
        E_NOT_SUPPORTED: { ...inMemory, body: { name: 'A copy' } },
        E_TRANSFER_FAILED: { body: { name: 'A copy' }, ...refused },
        E_TRANSFER_CANCELLED: { body: { name: 'A copy' }, ...cancelled },
        E_MIGRATION_FAILED: { body: { id: `${FAILING}-{id}`, name: 'A copy', data: false }, waits: true },
      },
    },
    'tenants.move': {
      success: { body: { isolation: 'database-pg' } },
      wrong: { body: {} },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { isolation: 'database-pg' } },
        E_TENANT_STATE: { ...deleted, body: { isolation: 'database-pg' } },
        E_TRANSFER_IN_PROGRESS: { ...moving, body: { isolation: 'database-pg' } },
        E_NOT_SUPPORTED: { body: inMemory },
        E_TRANSFER_FAILED: { body: { isolation: 'database-pg' }, ...refused },
        E_TRANSFER_CANCELLED: { body: { isolation: 'database-pg' }, ...cancelled },
      },
    },
    'transfers.listAll': {
      success: { ...backedUp, query: { state: 'completed', kind: 'backup', placement: 'main' } },
      wrong: { query: { kind: 'copy' } },
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
    'tenant:clone': { line: ['{id}', 'A copy'] },
    'tenant:move': { line: ['{id}', '--isolation', 'database-pg'] },
    'transfer:list': { ...backedUp, line: ['--kind', 'backup', '--limit', '1'] },
    'tenant:transfer:list': { ...backedUp, line: ['{id}'] },
    'tenant:transfer:show': { ...backedUp, line: ['{id}', '{backupId}'] },
    'tenant:transfer:cancel': { ...backingUp, line: ['{id}', '{given}'] },
  },
  events: ['TenantCloned', 'TenantMoved'],
  jobs: {
    CloneTenant: { data: { transferId: UNKNOWN } },
    MoveTenant: { data: { transferId: UNKNOWN } },
    RecoverTransfers: { data: {} },
  },
}
