/** The audit log of a tenant, for its erasure: entries are append-only and sealed, so only data keys are removed. */
import type { Database } from '../../../kernel/database/database.ts'
import type { Erasable } from '../../../kernel/erasable.ts'
import type { DataKeys } from './data-keys.ts'
import { ENCRYPTED } from './fields.ts'

const READABLE = 'Entries are append-only and sealed. These were recorded without encryption.'
const CIPHERTEXT = 'Entries are append-only and sealed. Actor name, IP address and states are ciphertext without a key.'

export interface AuditService {
  readonly database: Database
  readonly dataKeys: DataKeys
  signReport(text: string): Promise<string>
}

export const erase: Erasable<AuditService> = {
  systems: [
    {
      name: 'audit log',
      isAfterRows: true,
      tables: ['audit_entries', 'audit_seals', 'audit_heads', 'audit_checkpoints', 'audit_keys'],
      async find({ database, dataKeys }, { tenantId }) {
        const { rows } = await database.sql(
          `select count(*) filter (where starts_with(actor_name, $2)) as encrypted,
             count(*) filter (where not starts_with(actor_name, $2)) as readable
           from multitenancy.audit_entries where tenant_id = $1`,
          [tenantId, ENCRYPTED],
        )
        return [
          { kind: 'readable entries', count: rows[0].readable, kept: READABLE },
          { kind: 'encrypted entries', count: rows[0].encrypted, kept: CIPHERTEXT },
          { kind: 'data keys', count: await dataKeys.count(tenantId) },
        ]
      },
      remove: ({ dataKeys }, { tenantId }) => dataKeys.destroy(tenantId),
    },
  ],
  sign: (auditLogs, text) => auditLogs.signReport(text),
}
