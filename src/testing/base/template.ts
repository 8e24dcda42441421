/**
 * Creates test databases as copies of a migrated template: a copy takes milliseconds, the migration of all parts a
 * second.
 *
 * - The template has the tables of the given parts and of the job queue, but no roles, no installation and no rows.
 * - A template is kept for one role, UTC day and set of migrations, because migrations create partitions from the
 *   present day on. A finished template is named `tenantry_template_…`; an unfinished one has another name.
 */
import { createHash, randomBytes } from 'node:crypto'
import { PgBossJobs } from '../../drivers/jobs/pg-boss.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database, sqlState } from '../../kernel/database/database.ts'
import { type MigratedPart, migrate } from '../../kernel/database/migrations.ts'
import { createTestDatabase, databaseUrl, onServer, type TestDatabase } from './database.ts'

/** `duplicate_database`, or `unique_violation` for two concurrent renames. */
const DUPLICATE = ['42P04', '23505']
const NO_SUCH_DATABASE = '3D000'
const IN_USE = '55006'

const templates = new Map<string, Promise<string>>()

/** @param serverUrl URL of any database of the server, with a role that may create databases. */
export async function createMigratedDatabase(serverUrl: string, parts: readonly MigratedPart[]): Promise<TestDatabase> {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
  const key = `${serverUrl} ${hash}`
  const template = templates.get(key) ?? ensureTemplate(serverUrl, hash, parts)
  templates.set(key, template)
  template.catch(() => templates.delete(key))
  return createTestDatabase(serverUrl, await template)
}

async function ensureTemplate(serverUrl: string, hash: string, parts: readonly MigratedPart[]): Promise<string> {
  return onServer(serverUrl, async (server) => {
    const { rows } = await server.sql(
      `select to_char(now() at time zone 'utc', 'YYYYMMDD') as day, left(md5(current_user), 8) as role`,
    )
    const { day, role } = rows[0]
    const name = `tenantry_template_${day}_${role}_${hash}`
    const { rows: known } = await server.sql(
      `select datname as name from pg_database where datdba = current_user::regrole and datname ~ '^tenantry_(template|unfinished)_\\d'`,
    )
    if (known.some((template) => template.name === name)) return name
    const former = known.filter((template) => dayOf(template.name) < day)
    for (const template of former) await drop(server, template.name)
    const unfinished = `tenantry_unfinished_${day}_${randomBytes(8).toString('hex')}`
    await server.sql(`create database ${unfinished}`)
    await migrateAll(databaseUrl(serverUrl, unfinished), parts)
    await server.sql(`alter database ${unfinished} is_template true allow_connections false`)
    try {
      await server.sql(`alter database ${unfinished} rename to ${name}`)
    } catch (error) {
      if (!DUPLICATE.includes(sqlState(error) ?? '')) throw error // another process was first
      await drop(server, unfinished)
    }
    return name
  })
}

const dayOf = (name: string): string => name.split('_')[2] ?? ''

/** Ignores a template that another process copies or has dropped. */
async function drop(server: Database, name: string): Promise<void> {
  try {
    await server.sql(`alter database ${name} is_template false`)
    await server.sql(`drop database ${name}`)
  } catch (error) {
    if (![IN_USE, NO_SUCH_DATABASE].includes(sqlState(error) ?? '')) throw error
  }
}

async function migrateAll(url: string, parts: readonly MigratedPart[]): Promise<void> {
  const log = createLogger({ level: 'silent' })
  const database = new Database({ url, max: 2 }, log)
  try {
    await migrate(database, parts)
    const jobs = new PgBossJobs(database, log)
    await jobs.start({ types: [], handlers: new Map(), schedule: [] }, { work: false, keep: false })
    await jobs.stop(0)
  } finally {
    await database.close()
  }
}
