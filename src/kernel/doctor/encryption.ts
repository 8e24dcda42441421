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
  whose: 'of a satellite that is switched off',
  lost: 'they have to be set again once the satellite is on',
}

export const encryptionDiagnosis: Diagnosis<SwitchedOff> = {
  name: 'secrets',
  summary: 'Secrets of logins and of satellites that are switched off, under application keys that are former or gone',
  async *examine({ database, secrets, columns }) {
    for (const { table, column, key, binding, about = SWITCHED_OFF } of await existing(database, columns)) {
      // One value of each key is a sample of all. An enabled part finds single altered values itself.
      const keyId = `split_part(${column}, '.', 2)`
      const { rows } = await database.sql(
        `select distinct on (${keyId}) ${key}::text as key, ${column} as sealed,
           count(*) over (partition by ${keyId})::int as count
         from multitenancy.${table} where ${column} <> '' order by ${keyId}`,
      )
      for (const row of rows as { key: string; sealed: string; count: number }[]) {
        if (secrets.isCurrent(row.sealed)) continue
        const which = `${row.count} in ${table}.${column}, ${about.whose},`
        const verb = row.count === 1 ? 'is' : 'are'
        yield canDecrypt(() => secrets.decrypt(row.sealed, binding(row.key)))
          ? {
              severity: 'info',
              code: 'secrets.old-key',
              message: `${which} ${verb} sealed under a former application key`,
              remedy:
                'tenantry tenant:secrets:reencrypt seals them anew; until then keep that key among TENANTRY_OLD_APP_KEYS.',
            }
          : {
              severity: 'warn',
              code: 'secrets.lost-key',
              message: `${which} ${verb} sealed under an application key that is not configured here`,
              remedy: `Add the key to TENANTRY_OLD_APP_KEYS and seal them anew; if it is lost, ${about.lost}.`,
            }
      }
    }
  },
}
