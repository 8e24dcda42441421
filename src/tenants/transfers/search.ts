/** Finds transfers and backups for the search of an operator, by their ids. */
import { isUuid } from '../../kernel/base/ids.ts'
import { foundBy } from '../../kernel/shares/search.ts'

export const transferProviders = [
  foundBy({
    name: 'transfers',
    kind: 'transfer',
    operation: 'transfers.get',
    accepts: isUuid,
    sql: `select id, tenant_id as "tenantId", kind || ': ' || state as title, 'id' as matched,
        json_build_object('id', tenant_id, 'transferId', id) as params
      from multitenancy.transfers where id = $1`,
  }),
  foundBy({
    name: 'backups',
    kind: 'backup',
    operation: 'backups.get',
    accepts: isUuid,
    sql: `select id, tenant_id as "tenantId", coalesce(note, 'backup') as title, 'id' as matched,
        json_build_object('id', tenant_id, 'backupId', id) as params
      from multitenancy.backups where id = $1 and deleted_at is null`,
  }),
]
