/** Diagnoses of stored settings: a finding for each setting and fault, with the number of tenants and one of them. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Settings } from './settings.ts'
import { decoded, matches } from './stored.ts'
import type { SettingRow } from './tables.ts'

/** One row of each plain value, and as a sample one of each application key of secrets. */
const SAMPLES = `select distinct on (name, value, split_part(secret, '.', 2)) name, value, secret, tenant_id as "tenantId",
    count(*) over (partition by name, value, split_part(secret, '.', 2))::int as count
  from multitenancy.settings`

const FAULTS = {
  'lost-key': [
    'error',
    'cannot be decrypted',
    'Add its application key to TENANTRY_OLD_APP_KEYS, or set the value again.',
  ],
  mismatch: ['error', 'does not match its definition', 'Set the value again, or delete it.'],
  undefined: ['info', 'has no definition', 'Define the setting again, or leave the value until the tenant is purged.'],
  'old-key': ['info', 'is encrypted with a former application key', 'Run tenantry tenant:secrets:reencrypt.'],
} as const
type Fault = keyof typeof FAULTS

export const diagnosis: Diagnosis<Settings<any>> = {
  name: 'settings',
  summary: 'Stored settings of tenants',
  async *examine(settings) {
    const { rows } = await settings.kernel.database.sql(SAMPLES)
    const found = new Map<string, Finding & { count: number }>()
    for (const row of rows as (SettingRow & { count: number })[]) {
      const fault = faultOf(settings, row)
      if (!fault) continue
      const [severity, problem, remedy] = FAULTS[fault]
      const { tenantId, name } = row
      const count = row.count + (found.get(name + fault)?.count ?? 0)
      const others = count > 1 ? ` and ${count - 1} more` : ''
      const message = `setting "${name}" of tenant "${tenantId}"${others} ${problem}`
      found.set(name + fault, { severity, code: `settings.${fault}`, message, remedy, tenantId, count })
    }
    for (const { count: _, ...finding } of found.values()) yield finding
  },
}

function faultOf({ kernel: { secrets }, defined }: Settings<any>, row: SettingRow): Fault | undefined {
  const definition = defined.get(row.name)
  if (!definition) return 'undefined'
  const json = decoded(row, secrets)
  if (json === undefined) return 'lost-key'
  if (!matches(definition, row, json)) return 'mismatch'
  return row.secret === null || secrets.isCurrent(row.secret) ? undefined : 'old-key'
}
