/** Names of a tenant's entries in caches and file storage that all tenants share. */
import { invalid } from '../../kernel/base/errors.ts'

export const keyOf = (tenantId: string, name: string): string => `${tenantId}:${name}`

/** @throws E_INVALID_REQUEST for a name that could leave the folder of the tenant */
export function pathOf(tenantId: string, name: string): string {
  const isPlain = name.split('/').every((segment) => !['', '.', '..'].includes(segment))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: file systems and object stores disagree on them
  if (!isPlain || /[\\\x00-\x1f\x7f]/.test(name)) {
    const message = 'must be a relative path without empty segments, ".", "..", backslashes and control characters'
    throw invalid([{ path: 'path', message }])
  }
  return `tenants/${tenantId}/${name}`
}
