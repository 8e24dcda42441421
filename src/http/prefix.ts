/** Normalizes mount paths and paths with a trailing slash. */

/** Removes the trailing slash. Throws for an invalid path. */
export function normalizedPrefix(prefix: string): string {
  const trimmed = prefix.replace(/\/+$/, '')
  if (trimmed !== '' && !/^(\/[A-Za-z0-9._~-]+)+$/.test(trimmed))
    throw new Error(`prefix: "${prefix}" is not a path like /admin/tenants`)
  return trimmed
}

/** Removes one trailing slash, which the routes ignore. */
export const withoutSlash = (pathname: string): string => (pathname.endsWith('/') ? pathname.slice(0, -1) : pathname)
