/**
 * Encrypts stored values again after a change of the application key, row by row, so that the former key can be removed. A row changed
 * in parallel is skipped: it is encrypted with the current key. Idempotent; safe to run in parallel with other work.
 */
import type { Secrets } from '../crypto/crypto.ts'
import type { Database } from './database.ts'
import { pagesOf } from './pages.ts'

interface Row {
  readonly key: string
  readonly encrypted: string
}

/** Where a part keeps encrypted values. An empty one was erased, as of a deleted webhook. */
export interface EncryptedColumn {
  readonly table: string
  /** The unique key of the row, compared as text. */
  readonly key: string
  readonly column: string
  /** What its values are bound to. */
  readonly binding: (key: string) => string
  /** For the doctor: whose it is, and what to do when its key is lost. Default: those of a disabled satellite. */
  readonly about?: { readonly whose: string; readonly lost: string }
}

export interface ReencryptionResult {
  readonly table: string
  readonly column: string
  readonly resealed: number
  /** Encrypted under the present key already. */
  readonly current: number
  /** Under a key that is not configured, or altered. */
  readonly failed: number
}

/** The existing columns: a part that was never enabled has no table, and a part disabled for long may lack a column. */
export async function existing(database: Database, columns: readonly EncryptedColumn[]): Promise<EncryptedColumn[]> {
  const { rows } = await database.sql(
    `select table_name as table, column_name as column from information_schema.columns where table_schema = 'multitenancy'`,
  )
  const there = new Set(rows.map(({ table, column }) => `${table}.${column}`))
  return columns.filter(({ table, column }) => there.has(`${table}.${column}`))
}

/** Undefined if the key is missing that it was encrypted with, or it was altered. */
export function decrypted<T>(decrypt: () => T): T | undefined {
  try {
    return decrypt()
  } catch {
    return undefined
  }
}

export const canDecrypt = (decrypt: () => unknown): boolean => decrypted(() => ({ plain: decrypt() })) !== undefined

/** How many values they hold. */
export async function countEncrypted(database: Database, columns: readonly EncryptedColumn[]): Promise<number> {
  let sum = 0
  for (const { table, column } of columns) {
    const { rows } = await database.sql(
      `select count(*)::int as count from multitenancy.${table} where ${column} <> ''`,
    )
    sum += rows[0].count
  }
  return sum
}

/** @param onValue called after each value. */
export async function reencryptColumn(
  database: Database,
  secrets: Secrets,
  { table, key, column, binding }: EncryptedColumn,
  signal: AbortSignal,
  onValue: () => void = () => undefined,
): Promise<ReencryptionResult> {
  const count = { resealed: 0, current: 0, failed: 0 }
  const rows = pagesOf<Row>(
    database,
    `select ${key}::text as key, ${column} as encrypted from multitenancy.${table}
     where ${column} <> '' and ($1::text is null or ${key}::text > $1) order by ${key}::text`,
    { first: [null], after: (row) => [row.key], signal },
  )
  for await (const row of rows) {
    if (secrets.isCurrent(row.encrypted)) count.current += 1
    else count[await one(row)] += 1
    onValue()
  }
  return { table, column, ...count }

  async function one(row: Row): Promise<'resealed' | 'current' | 'failed'> {
    const plain = decrypted(() => secrets.decrypt(row.encrypted, binding(row.key)))
    if (plain === undefined) return 'failed'
    const { rows } = await database.sql(
      `update multitenancy.${table} set ${column} = $1 where ${key}::text = $2 and ${column} = $3 returning 1`,
      [secrets.encrypt(plain, binding(row.key)), row.key, row.encrypted],
    )
    return rows.length > 0 ? 'resealed' : 'current'
  }
}
