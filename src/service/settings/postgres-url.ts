/** Checks the URL of a PostgreSQL server: its form, and the settings of TLS in its query. */
import { accessSync, constants } from 'node:fs'
import { z } from 'zod'
import { NOT_A_POSTGRES_URL, POSTGRES_URL } from '../../kernel/database/start-failures.ts'

/** `pg` treats `prefer`, `require` and `verify-ca` like `verify-full`. */
const SSL_MODES = ['verify-full', 'verify-ca', 'require', 'prefer', 'no-verify', 'disable']
const SSL_FILES = ['sslrootcert', 'sslcert', 'sslkey']

export const PostgresUrl = z
  .string()
  .regex(POSTGRES_URL, NOT_A_POSTGRES_URL)
  .superRefine((url, context) => {
    for (const message of tlsFaults(url)) context.addIssue({ code: 'custom', message })
  })

function tlsFaults(url: string): string[] {
  const query = URL.parse(url)?.searchParams ?? new URLSearchParams()
  const mode = query.get('sslmode')
  return [
    ...(mode === null || SSL_MODES.includes(mode) ? [] : [`sslmode "${mode}" must be one of ${SSL_MODES.join(', ')}`]),
    ...SSL_FILES.flatMap((name) => {
      const path = query.get(name)
      return path === null || isReadable(path) ? [] : [`${name}: file ${path} not found or not readable`]
    }),
  ]
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK)
    return true
  } catch {
    return false
  }
}
