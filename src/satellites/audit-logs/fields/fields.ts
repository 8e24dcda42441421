/**
 * Encrypts the personal fields of audit entries with the data key of the tenant: actor name and IP address in one ciphertext, `before`
 * and `after` in another. Both are stored in the columns of the entry, so that its seal covers them.
 */
import type { Secrets } from '../../../kernel/crypto/crypto.ts'
import type { DataKeys } from './data-keys.ts'

/** The fields of an entry that are encrypted, and those that bind the ciphertext to it. */
export interface EntryFields {
  readonly id: string
  readonly tenantId: string | null
  readonly actorName: string
  readonly ip: string | null
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
}

/** Start of an encrypted actor name. */
export const ENCRYPTED = 'encrypted:'
/** Member of `after` with both states. */
const STATES = 'tenantry.encrypted'
/** Replaces the actor name of an entry whose key is destroyed. */
export const ERASED = '[erased]'

export function encryptFields<Entry extends EntryFields>(entry: Entry, key: Secrets): Entry {
  const { id, actorName, ip, before, after } = entry
  const actor = key.encrypt(JSON.stringify({ actorName, ip }), `${id}:actor`)
  const states = before || after ? { [STATES]: key.encrypt(JSON.stringify({ before, after }), `${id}:states`) } : null
  return { ...entry, actorName: `${ENCRYPTED}${actor}`, ip: null, before: null, after: states }
}

/** Decrypts the entries of a page. Entries without encryption are unchanged. */
export async function decryptFields<Entry extends EntryFields>(
  keys: Pick<DataKeys, 'forReading'>,
  entries: readonly Entry[],
): Promise<Entry[]> {
  const tenants = entries.flatMap(({ tenantId, actorName }) =>
    tenantId !== null && actorName.startsWith(ENCRYPTED) ? [tenantId] : [],
  )
  const known = await keys.forReading([...new Set(tenants)])
  return entries.map((entry) => {
    const key = entry.actorName.startsWith(ENCRYPTED) ? known.get(entry.tenantId ?? '') : undefined
    if (key === undefined) return entry
    return key === null ? { ...entry, actorName: ERASED, ip: null, before: null, after: null } : decrypted(entry, key)
  })
}

/** An entry with such a name that was recorded without encryption stays as it is. */
function decrypted<Entry extends EntryFields>(entry: Entry, key: Secrets): Entry {
  const { id, actorName, after } = entry
  const states = after?.[STATES]
  try {
    return {
      ...entry,
      ...JSON.parse(key.decrypt(actorName.slice(ENCRYPTED.length), `${id}:actor`)),
      ...(typeof states === 'string' ? JSON.parse(key.decrypt(states, `${id}:states`)) : {}),
    }
  } catch {
    return entry
  }
}
