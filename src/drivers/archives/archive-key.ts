/**
 * Validates the keys of archives, which become file paths and object names: a key has no `..`, is not absolute or
 * hidden, and stays unique on a case-insensitive file system.
 *
 *   acme/0198c9a1.1.tar.gz                       an archive
 *   acme/0198c9a1.1.tar.gz.5f1c09abe2d4.partial  a partial archive: being written, or left by a failed writer
 */
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'

/** With a short suffix of a partial archive, the name still fits into a file name of 255 bytes. */
const FILE_NAME = /^[a-z0-9][a-z0-9._-]{0,179}$/
const PARTIAL = /^(?<name>.+)\.(?<which>[A-Za-z0-9_-]+)\.partial$/
const SUFFIX = '.partial'

export interface ArchiveKey {
  readonly tenantId: string
  /** Name of the archive, also in the key of a partial archive. */
  readonly name: string
  /** Id of the partial archive; undefined in the key of a complete archive. */
  readonly which: string | undefined
}

export function parsedKey(key: string): ArchiveKey | undefined {
  const [tenantId = '', file = '', ...more] = key.split('/')
  const partial = PARTIAL.exec(file)?.groups
  const { name = file, which } = partial ?? {}
  if (more.length > 0 || !TENANT_ID.test(tenantId) || !FILE_NAME.test(name) || name.endsWith(SUFFIX)) return undefined
  return { tenantId, name, which }
}

/** Throws an `Error` for an invalid key. */
export function archiveKey(key: string): ArchiveKey {
  const parsed = parsedKey(key)
  if (!parsed) throw new Error(`${JSON.stringify(key)} is not a key of an archive`)
  return parsed
}

/** Throws an `Error` for an invalid key and for the key of a partial archive. */
export function wholeKey(key: string): ArchiveKey {
  const parsed = archiveKey(key)
  if (parsed.which !== undefined) throw new Error(`The key names a partial archive: ${JSON.stringify(key)}`)
  return parsed
}

export const partialName = (name: string, which: string): string => `${name}.${which}${SUFFIX}`
