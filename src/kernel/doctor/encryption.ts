/** Diagnoses whether values of disabled parts and tenants' logins can be decrypted. Enabled parts have diagnoses of their values. */

import type { Secrets } from '../crypto/crypto.ts'
import type { Database } from '../database/database.ts'
import { canDecrypt, type EncryptedColumn, existing } from '../database/re-encrypt.ts'
import type { Diagnosis } from './doctor.ts'

interface SwitchedOff {
  readonly database: Database
  readonly secrets: Secrets
  readonly columns: readonly EncryptedColumn[]
}

const SWITCHED_OFF = {
  whose: 'of a disabled satellite',
  lost: 'set them again when the satellite is enabled',
}

export const encryptionDiagnosis: Diagnosis<SwitchedOff> = {
  name: 'secrets',
  summary: 'Encryption keys of logins and of secrets of disabled satellites',
  async *examine({ database, secrets, columns }) {
    for (const { table, column, key, binding, about = SWITCHED_OFF } of await existing(database, columns)) {
      // One value of each key is a sample for all. An enabled part finds single altered values itself.
      const keyId = `split_part(${column}, '.', 2)`
      const { rows } = await database.sql(
        `select distinct on (${keyId}) ${key}::text as key, ${column} as encrypted,
           count(*) over (partition by ${keyId})::int as count
         from multitenancy.${table} where ${column} <> '' order by ${keyId}`,
      )
      for (const row of rows as { key: string; encrypted: string; count: number }[]) {
        if (secrets.isCurrent(row.encrypted)) continue
        const which = `${row.count} in ${table}.${column}, ${about.whose},`
        const verb = row.count === 1 ? 'is' : 'are'
        yield canDecrypt(() => secrets.decrypt(row.encrypted, binding(row.key)))
          ? {
              severity: 'info',
              code: 'secrets.old-key',
              message: `${which} ${verb} encrypted with a former application key`,
              remedy: 'Run tenantry tenant:secrets:reencrypt; until then, keep that key in TENANTRY_OLD_APP_KEYS.',
            }
          : {
              severity: 'warn',
              code: 'secrets.lost-key',
              message: `${which} ${verb} encrypted with an application key that is not configured`,
              remedy: `Add the key to TENANTRY_OLD_APP_KEYS and run tenantry tenant:secrets:reencrypt; if it is lost, ${about.lost}.`,
            }
      }
    }
  },
}
