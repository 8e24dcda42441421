/** Stored values of settings: JSON, encrypted for secrets. */
import type { Secrets } from '../../kernel/crypto/crypto.ts'
import { decrypted } from '../../kernel/database/re-encrypt.ts'
import type { Defined } from './definitions.ts'
import type { SettingRow } from './tables.ts'

/** Key of a row in SQL, for a change of the application key. */
export const KEY = `(tenant_id || ' ' || name)`
/** Context that an encrypted value is bound to. @param key as `KEY` */
export const bindingOf = (key: string): string => `setting ${key}`

type Stored = Pick<SettingRow, 'tenantId' | 'name' | 'value' | 'secret'>

export function encoded({ name, isSecret }: Defined, tenantId: string, json: string, secrets: Secrets): Stored {
  const values = isSecret
    ? { value: null, secret: secrets.encrypt(json, bindingOf(`${tenantId} ${name}`)) }
    : { value: json, secret: null }
  return { tenantId, name, ...values }
}

/** Undefined for a secret that cannot be decrypted. */
export function decoded({ tenantId, name, value, secret }: Stored, secrets: Secrets): string | undefined {
  if (secret === null) return value ?? undefined
  return decrypted(() => secrets.decrypt(secret, bindingOf(`${tenantId} ${name}`)))
}

/** A value that was stored as a secret under a former definition does not match, and the reverse. */
export const matches = ({ isSecret, schema }: Defined, { secret }: Pick<Stored, 'secret'>, json: string): boolean =>
  isSecret === (secret !== null) && schema.safeParse(JSON.parse(json)).success

/** Whether setting this value again changes nothing. */
export const holds = ({ isSecret }: Defined, row: Stored, json: string, secrets: Secrets): boolean =>
  isSecret === (row.secret !== null) && decoded(row, secrets) === json

/** For the audit log: without a value that is a secret by the present definition, or was one when it was stored. */
export function imageOf({ isSecret }: Defined, row: Stored | undefined): Record<string, unknown> | null {
  if (!row) return null
  return isSecret || row.value === null ? { isSet: true } : { value: JSON.parse(row.value) }
}
