/**
 * Recognizes the application key of a backoffice by a proof: a constant that is encrypted with the key, in a table of one row.
 * - A wrong key is rejected before migrations; while a process with another key is running, as a conflict of settings.
 * - Of several first starts with different keys, only one succeeds.
 * - A start with a former key encrypts the proof with the current key.
 */
import { InvalidConfiguration, TenancyError } from '../base/errors.ts'
import type { Secrets } from '../crypto/crypto.ts'
import type { Database } from './database.ts'
import { canDecrypt, type EncryptedColumn, existing } from './re-encrypt.ts'

export const APPLICATION_KEY = `
      create table application_key (
        is_only boolean primary key default true check (is_only),
        proof text not null
      );
    `

const BINDING = 'application_key:proof'
const CONSTANT = 'tenantry'
const PROOF: EncryptedColumn = { table: 'application_key', key: 'is_only', column: 'proof', binding: () => BINDING }

/** None of the configured keys is the key of the backoffice. */
export class WrongApplicationKey extends TenancyError {
  constructor() {
    super(
      InvalidConfiguration,
      'The application keys (`appKey`, `oldAppKeys`) do not decrypt the secrets of this backoffice. Configure the key ' +
        'that encrypted them; docs/disaster-recovery.md describes the recovery from a lost key.',
    )
  }
}

/**
 * Throws `WrongApplicationKey` for a key that does not decrypt the proof. Changes nothing.
 * @param columns values that every start decrypts: the proof of a backoffice of an earlier release
 */
export async function assertApplicationKey(
  database: Database,
  secrets: Secrets,
  columns: readonly EncryptedColumn[],
): Promise<void> {
  for (const { table, column, key, binding } of await existing(database, [PROOF, ...columns])) {
    const { rows } = await database.sql(
      `select ${key}::text as key, ${column} as encrypted from multitenancy.${table} where ${column} <> '' limit 1`,
    )
    const [sample] = rows as { key: string; encrypted: string }[]
    if (!sample) continue
    if (canDecrypt(() => secrets.decrypt(sample.encrypted, binding(sample.key)))) return
    throw new WrongApplicationKey()
  }
}

/** Stores the proof, or compares the stored one: a concurrent first start may have used another key. */
export async function keepApplicationKey(database: Database, secrets: Secrets): Promise<void> {
  const current = secrets.encrypt(CONSTANT, BINDING)
  const { rows } = await database.sql(
    `insert into multitenancy.application_key (proof) values ($1)
     on conflict (is_only) do update set is_only = true returning proof`,
    [current],
  )
  const [{ proof }] = rows as [{ proof: string }]
  if (!canDecrypt(() => secrets.decrypt(proof, BINDING))) throw new WrongApplicationKey()
  if (secrets.isCurrent(proof)) return
  await database.sql('update multitenancy.application_key set proof = $1 where proof = $2', [current, proof])
}
