import { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import { on } from '../../kernel/events/events.ts'
import { cachedGauges, MEDIUM_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import { defineSatellite, optionTexts, type Satellite } from '../../tenancy/satellite.ts'
import { AuditLogs } from './audit-logs.ts'
import { commands } from './commands.ts'
import { diagnoses } from './doctor.ts'
import { bindingOf } from './fields/data-keys.ts'
import { erase } from './fields/erasure.ts'
import { jobs, schedule } from './jobs.ts'
import { tables } from './model/tables.ts'
import { operations } from './operations.ts'
import { contributions } from './overview/contributions.ts'
import { BINDING } from './seal-key-store.ts'
import type { AUDIT_STREAM } from './stream.ts'

export type { AuditFilter, AuditFilterOfAll } from './audit-logs.ts'
export type { AuditEntry } from './model/entry.ts'
export type { Verification } from './verification.ts'

const Options = z.strictObject({
  /** Minimum retention of entries, in whole months. Absent: unlimited. */
  retentionDays: z.int().min(1).max(36_500).optional(),
})
export type AuditOptions = z.input<typeof Options>

export const auditLogs = (options: AuditOptions = {}): Satellite<'auditLogs', AuditLogs, typeof AUDIT_STREAM> => {
  const { retentionDays } = parsed(Options, options, 'audit')
  return defineSatellite({
    name: 'auditLogs',
    console: new URL('./console/index.tsx', import.meta.url),
    summary: 'Append-only log of changes with actor, time and request; tamper-evident, with exports',
    sharedOptions: optionTexts({ retentionDays }),
    tables,
    encryptedColumns: [
      { table: 'audit_state', key: 'is_only', column: 'secret', binding: () => BINDING },
      { table: 'audit_keys', key: 'tenant_id', column: 'key', binding: bindingOf },
    ],
    erase,
    service: (kernel, tenants) => new AuditLogs(kernel, tenants, retentionDays, tenants.erasures.settings.auditFields),
    operations,
    commands,
    jobs,
    schedule,
    doctor: diagnoses,
    ...contributions,
    metrics: (auditLogs) =>
      cachedGauges(
        () => auditLogs.unsealed(0),
        [
          {
            name: 'multitenancy_audit_unsealed_entries',
            help: 'Audit entries that wait for their seals',
            samples: ({ waiting }) => [{ value: waiting }],
          },
          {
            name: 'multitenancy_audit_unsealed_age_seconds',
            help: 'Age of the oldest audit entry that waits for its seal; 0 if none waits',
            samples: ({ since }) => [{ value: since ? Math.max(0, (Date.now() - since.getTime()) / 1_000) : 0 }],
          },
        ],
        { maxShare: MEDIUM_SHARE },
      ),
    listeners: [on(ChangeRecorded, 'within', (auditLogs: AuditLogs, change) => auditLogs.append(change))],
  })
}

export default auditLogs
