/** Finds sessions for the search of an operator, by their ids. */
import { isUuid } from '../../kernel/base/ids.ts'
import { foundBy } from '../../kernel/shares/search.ts'

export const searchProviders = [
  foundBy({
    name: 'impersonations',
    kind: 'impersonation',
    operation: 'impersonations.list',
    accepts: isUuid,
    sql: `select id, tenant_id as "tenantId", actor_name || ' as ' || user_id as title, 'id' as matched,
        json_build_object('id', tenant_id) as params
      from multitenancy.impersonations where id = $1`,
  }),
]
