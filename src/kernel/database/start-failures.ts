/** Explains errors of PostgreSQL at a start: what to check in the configuration. Messages contain no URL, which has a password. */
import { DependencyUnavailable, InvalidConfiguration, type TenancyError } from '../base/errors.ts'
import { isDatabaseUnavailable, sqlState } from './availability.ts'
import { isTlsFailure } from './tls-failure.ts'

export const POSTGRES_URL = /^postgres(ql)?:\/\/.+/
export const NOT_A_POSTGRES_URL = 'must be a URL such as postgres://user:password@host:5432/database'

/** @throws for an absent URL, and for one of another form, which `pg` would take for a host */
export function checkedUrl(key: string, url: string | undefined): string {
  if (url && POSTGRES_URL.test(url)) return url
  throw new Error(`${key} ${url ? NOT_A_POSTGRES_URL : `is required: it ${NOT_A_POSTGRES_URL}`}`)
}

const HINTS: Readonly<Record<string, string>> = {
  '28000': 'Check the user in the URL of the database, and pg_hba.conf of its server.',
  '28P01': 'Check user and password in the URL of the database.',
  '3D000': 'Create the database, or correct its name in the URL.',
  '42501':
    'The role in the URL of the database needs CREATE on the database and must own the schemas multitenancy and multitenancy_jobs. ' +
    'See docs/operating.md#rights-of-the-database-role.',
}

/** Undefined unless the server cannot be reached. */
export function unreachable(error: unknown): TenancyError | undefined {
  if (isTlsFailure(error)) {
    return DependencyUnavailable(
      `TLS to the database failed (${textOf(error)}). Check the certificate of its server, and sslrootcert and the host in its URL.`,
      { cause: error },
    )
  }
  if (!isDatabaseUnavailable(error)) return undefined
  return DependencyUnavailable(
    `The database cannot be reached (${textOf(error)}). Check that its server is running and its URL is correct.`,
    { cause: error },
  )
}

/** The error of a start, or a clearer one in its place. */
export function explained(error: unknown): unknown {
  const hint = HINTS[sqlState(error) ?? '']
  if (hint) return InvalidConfiguration(`${textOf(error)}. ${hint}`, { cause: error })
  return unreachable(error) ?? error
}

/** Adds a sentence to the message of an error, once. */
export function withHint(error: unknown, hint: string): unknown {
  if (error instanceof Error && !error.message.endsWith(hint)) error.message = `${error.message}. ${hint}`
  return error
}

export function textOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(textOf).join('; ')
  return error instanceof Error ? error.message || error.name : String(error)
}
