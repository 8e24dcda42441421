/** Diagnoses of stored settings: a finding for each setting and fault, with the number of tenants and one of them. */
import { pagesOf } from '../../kernel/database/pages.ts'
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Settings } from './settings.ts'
import { decoded, matches } from './stored.ts'
import type { SettingRow } from './tables.ts'

const ROWS = `select tenant_id as "tenantId", name, value, secret from multitenancy.settings
  where (tenant_id, name) > ($1, $2) order by tenant_id, name`

interface Fault {
  readonly code: 'settings.lost-key' | 'settings.mismatch' | 'settings.undefined' | 'settings.old-key'
  readonly row: SettingRow
  readonly count: number
}

const FAULTS: Record<Fault['code'], readonly [severity: Finding['severity'], problem: string, remedy: string]> = {
  'settings.lost-key': [
    'error',
    'cannot be decrypted',
    'Add its application key to TENANTRY_OLD_APP_KEYS, or set the value again.',
  ],
  'settings.mismatch': ['error', 'does not match its definition', 'Set the value again, or delete it.'],
  'settings.undefined': [
    'info',
    'has no definition',
    'Define the setting again, or leave the value until the tenant is purged.',
  ],
  'settings.old-key': ['info', 'is encrypted with a former application key', 'Run tenantry tenant:secrets:reencrypt.'],
}

export const diagnosis: Diagnosis<Settings<any>> = {
  name: 'settings',
  summary: 'Stored settings of tenants',
  timeoutMs: 60_000, // decrypts each secret
  async *examine(settings, { signal }) {
    const found = new Map<string, Fault>()
    const after = ({ tenantId, name }: SettingRow) => [tenantId, name]
    for await (const row of pagesOf(settings.kernel.database, ROWS, { first: ['', ''], after, signal })) {
      const code = faultOf(settings, row)
      const key = `${row.name} ${code}`
      if (code) found.set(key, { code, row, count: (found.get(key)?.count ?? 0) + 1 })
    }
    for (const { code, row, count } of found.values()) {
      const [severity, problem, remedy] = FAULTS[code]
      const others = count > 1 ? ` and ${count - 1} more` : ''
      const message = `setting "${row.name}" of tenant "${row.tenantId}"${others} ${problem}`
      yield { severity, code, message, remedy, tenantId: row.tenantId }
    }
  },
}

function faultOf({ kernel: { secrets }, defined }: Settings<any>, row: SettingRow): Fault['code'] | undefined {
  const definition = defined.get(row.name)
  if (!definition) return 'settings.undefined'
  const json = decoded(row, secrets)
  if (json === undefined) return 'settings.lost-key'
  if (!matches(definition, row, json)) return 'settings.mismatch'
  return row.secret === null || secrets.isCurrent(row.secret) ? undefined : 'settings.old-key'
}
