/**
 * Seeds tenants' storage with rows of the host: a `.sql` file with statements, or a `.ts` or `.js` file that exports
 * `seed(db, tenant)`. Runs in the tenant's scope, in one transaction per tenant. The file decides whether it is
 * idempotent.
 */
import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { CompiledQuery, type Kysely } from 'kysely'
import { invalid } from '../../kernel/base/errors.ts'
import { asRejected } from '../isolation/rejected-sql.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import { textOfFile } from '../tenant/text-file.ts'
import { sqlStatements } from './splitter.ts'

export type Seed = (db: Kysely<any>, tenant: TenantRecord) => Promise<unknown>

export async function readSeed(file: string): Promise<Seed> {
  const path = resolve(file)
  if (extname(path) === '.sql') return seedOf(sqlStatements(await textOfFile(file)))
  if (!['.ts', '.js', '.mts', '.mjs'].includes(extname(path))) {
    throw invalid([{ path: 'file', message: `${file}: a seed must be a .sql, .ts or .js file` }])
  }
  await textOfFile(file)
  const { seed } = await import(pathToFileURL(path).href)
  if (typeof seed !== 'function')
    throw invalid([{ path: 'file', message: `${file}: exports no function seed(db, tenant)` }])
  return seed
}

const seedOf =
  (statements: readonly string[]): Seed =>
  async (db) => {
    for (const statement of statements) {
      await db.executeQuery(CompiledQuery.raw(statement)).catch((error: unknown) => {
        throw asRejected(error)
      })
    }
  }
