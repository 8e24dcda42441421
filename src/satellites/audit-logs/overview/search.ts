/** Finds audit entries by their id and by the id of a request. */
import { isUuid } from '../../../kernel/base/ids.ts'
import { foundBy } from '../../../kernel/shares/search.ts'
import { isAhead } from '../model/seal-watermark.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{8,128}$/

/** The list has no filter by id: the times of the entry and its action select it. */
const ENTRY = `select e.id, e.tenant_id as "tenantId", e.action || ' of ' || e.target as title,
  json_build_object('action', e.action, 'from', ${rfc3339('e.created_at')},
    'to', ${rfc3339(`e.created_at + interval '1 millisecond'`)}) as params`

function rfc3339(time: string): string {
  return `to_char((${time}) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

export const searchProviders = [
  foundBy({
    name: 'auditEntries',
    kind: 'auditEntry',
    operation: 'auditLogs.listAll',
    accepts: isUuid,
    // A sealed entry is found by its seal, another one among those that the sealer would read.
    sql: `${ENTRY}, 'id' as matched from multitenancy.audit_seals s
        join multitenancy.audit_entries e on e.created_at = s.created_at and e.id = s.entry_id where s.entry_id = $1
      union all
      ${ENTRY}, 'id' as matched from multitenancy.audit_entries e where e.id = $1 and ${isAhead('e')}
        and not exists (select from multitenancy.audit_seals s where s.entry_id = e.id)`,
  }),
  foundBy({
    name: 'requests',
    kind: 'auditEntry',
    operation: 'auditLogs.listAll',
    accepts: (q) => REQUEST_ID.test(q),
    sql: `${ENTRY}, 'requestId' as matched from multitenancy.audit_entries e
      where e.request_id = $1 and left(e.request_id, 128) = $1`,
  }),
]
