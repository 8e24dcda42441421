/** Where something is mounted, and what a slash at the end of a path means: nothing. */

/** Without a slash at its end; throws for what is no path. */
export function normalizedPrefix(prefix: string): string {
  const trimmed = prefix.replace(/\/+$/, '')
  if (trimmed !== '' && !/^(\/[A-Za-z0-9._~-]+)+$/.test(trimmed))
    throw new Error(`prefix: "${prefix}" is not a path like /admin/tenants`)
  return trimmed
}

/** As the routes take it: with or without one slash at its end. */
export const withoutSlash = (pathname: string): string => (pathname.endsWith('/') ? pathname.slice(0, -1) : pathname)
