/**
 * Databases for tests that start as a copy of a migrated one: a copy takes milliseconds, the migration of all parts a second.
 *
 * - The template has the tables of the given parts and of the job queue. It has no roles, no installation and no rows of a tenancy.
 * - Each set of migrations has its own template, which stays on the server. `datistemplate` marks a finished one; a template without
 *   the mark is made again.
 */
import { createHash } from 'node:crypto'
import { PgBossJobs } from '../drivers/jobs/pg-boss.ts'
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'
import { type MigratedPart, migrate } from '../kernel/migrations.ts'
import { createTestDatabase, databaseUrl, onServer, type TestDatabase } from './database.ts'

/** Any constant: one process at a time makes templates on a server. */
const LOCK_KEY = 7_367_228_099

const templates = new Map<string, Promise<string>>()

/** @param serverUrl of any database there, by a role that may create databases. */
export async function createMigratedDatabase(serverUrl: string, parts: readonly MigratedPart[]): Promise<TestDatabase> {
  const name = `tenantry_template_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)}`
  const key = `${serverUrl} ${name}`
  const template = templates.get(key) ?? ensureTemplate(serverUrl, name, parts)
  templates.set(key, template)
  return createTestDatabase(serverUrl, await template)
}

async function ensureTemplate(serverUrl: string, name: string, parts: readonly MigratedPart[]): Promise<string> {
  await onServer(serverUrl, (server) =>
    server.session(async (client) => {
      await client.query('select pg_advisory_lock($1)', [LOCK_KEY])
      const { rows } = await client.query('select datistemplate from pg_database where datname = $1', [name])
      if (rows[0]?.datistemplate) return
      await client.query(`drop database if exists ${name} with (force)`)
      await client.query(`create database ${name}`)
      await migrateAll(databaseUrl(serverUrl, name), parts)
      await client.query(`alter database ${name} is_template true allow_connections false`)
    }),
  )
  return name
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
