/**
 * The keys of archives. They become paths and names of objects, so nothing passes here that could mean something there: no `..`,
 * nothing absolute or hidden, and no two keys that are one where large and small letters are the same.
 *
 *   acme/0198c9a1.1.tar.gz                       an archive
 *   acme/0198c9a1.1.tar.gz.5f1c09abe2d4.partial  what is being written for it, or was given up
 */
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'

/** With what makes it partial it still fits into the 255 bytes of a file's name, when the driver keeps that short. */
const FILE_NAME = /^[a-z0-9][a-z0-9._-]{0,179}$/
const PARTIAL = /^(?<name>.+)\.(?<which>[A-Za-z0-9_-]+)\.partial$/
const SUFFIX = '.partial'

export interface ArchiveKey {
  readonly tenantId: string
  /** Of the archive, also where the key is that of a partial one. */
  readonly name: string
  /** Which of those that are partial; undefined in the key of an archive. */
  readonly which: string | undefined
}

export function parsedKey(key: string): ArchiveKey | undefined {
  const [tenantId = '', file = '', ...more] = key.split('/')
  const partial = PARTIAL.exec(file)?.groups
  const { name = file, which } = partial ?? {}
  if (more.length > 0 || !TENANT_ID.test(tenantId) || !FILE_NAME.test(name) || name.endsWith(SUFFIX)) return undefined
  return { tenantId, name, which }
}

/** Throws for what is no key. */
export function archiveKey(key: string): ArchiveKey {
  const parsed = parsedKey(key)
  if (!parsed) throw new Error(`not a key of an archive: ${JSON.stringify(key)}`)
  return parsed
}

/** Throws also for the key of a partial one. */
export function wholeKey(key: string): ArchiveKey {
  const parsed = archiveKey(key)
  if (parsed.which !== undefined) throw new Error(`the key of a partial archive: ${JSON.stringify(key)}`)
  return parsed
}

export const partialName = (name: string, which: string): string => `${name}.${which}${SUFFIX}`
