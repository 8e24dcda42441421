/** Diagnoses of stored settings: a finding for each setting and fault, with the number of tenants and one of them. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Settings } from './settings.ts'
import { decoded, matches } from './stored.ts'
import type { SettingRow } from './tables.ts'

const READ_AT_ONCE = 500

const PAGE = `select tenant_id as "tenantId", name, value, secret from multitenancy.settings
  where (tenant_id, name) > ($1, $2) order by tenant_id, name limit ${READ_AT_ONCE}`

interface Fault extends Pick<Finding, 'severity' | 'code' | 'remedy'> {
  readonly problem: string
}

const LOST_KEY: Fault = {
  severity: 'error',
  code: 'settings.lost-key',
  problem: 'cannot be decrypted',
  remedy: 'Add its application key to TENANTRY_OLD_APP_KEYS, or set the value again.',
}
const MISMATCH: Fault = {
  severity: 'error',
  code: 'settings.mismatch',
  problem: 'does not match its definition',
  remedy: 'Set the value again, or delete it.',
}
const UNDEFINED: Fault = {
  severity: 'info',
  code: 'settings.undefined',
  problem: 'has no definition',
  remedy: 'Define the setting again, or leave the value until the tenant is purged.',
}
const OLD_KEY: Fault = {
  severity: 'info',
  code: 'settings.old-key',
  problem: 'is encrypted with a former application key',
  remedy: 'Run tenantry tenant:secrets:reencrypt.',
}

export const diagnosis: Diagnosis<Settings<any>> = {
  name: 'settings',
  summary: 'Stored settings of tenants',
  timeoutMs: 60_000, // decrypts each secret
  async *examine(settings, { signal }) {
    const found = new Map<string, Fault & { tenantId: string; name: string; count: number }>()
    for await (const row of storedSettings(settings, signal)) {
      const fault = faultOf(settings, row)
      if (!fault) continue
      const { tenantId, name } = row
      const key = `${name} ${fault.code}`
      const { count } = found.get(key) ?? { count: 0 }
      found.set(key, { ...fault, tenantId, name, count: count + 1 })
    }
    for (const { severity, code, remedy, problem, tenantId, name, count } of found.values()) {
      const others = count > 1 ? ` and ${count - 1} more` : ''
      yield {
        severity,
        code,
        message: `setting "${name}" of tenant "${tenantId}"${others} ${problem}`,
        remedy,
        tenantId,
      }
    }
  },
}

async function* storedSettings({ kernel }: Settings<any>, signal: AbortSignal): AsyncGenerator<SettingRow> {
  for (let after: Pick<SettingRow, 'tenantId' | 'name'> | undefined = { tenantId: '', name: '' }; after; ) {
    signal.throwIfAborted()
    const { rows } = await kernel.database.sql(PAGE, [after.tenantId, after.name])
    yield* rows as SettingRow[]
    after = rows.length < READ_AT_ONCE ? undefined : rows.at(-1)
  }
}

function faultOf({ kernel: { secrets }, defined }: Settings<any>, row: SettingRow): Fault | undefined {
  const definition = defined.get(row.name)
  if (!definition) return UNDEFINED
  const json = decoded(row, secrets)
  if (json === undefined) return LOST_KEY
  if (!matches(definition, row, json)) return MISMATCH
  return row.secret === null || secrets.isCurrent(row.secret) ? undefined : OLD_KEY
}
