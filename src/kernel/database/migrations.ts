/**
 * Migrates the backoffice schema forward, part by part. A migration is SQL with a name and a checksum; a changed checksum prevents
 * the start. Processes may start concurrently: one holds the advisory lock and migrates, the others wait.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DependencyUnavailable } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { type Database, SCHEMA, type Session } from './database.ts'
import { LOCK_TIMEOUT_MS, retryOnLock } from './lock-retry.ts'

export interface Migration {
  /** `0001_create_tenants`: runs in the order of its part's list. */
  readonly name: string
  /**
   * SQL that runs in one transaction. Or statements that each run outside of a transaction, for large tables: they may run again, and take
   * no lock that blocks writers. A statement may return further ones as rows with a `statement`.
   */
  readonly up: string | readonly string[]
}

export interface MigratedPart {
  readonly part: string
  readonly migrations: readonly Migration[]
}

/** An arbitrary constant, the same in every database. */
const LOCK_KEY = 7_367_228_001

const LOCK_RETRY_MS = 100
const WARN_AFTER_MS = 5_000

/** Attempts to lock the tables of a migration, two seconds apart. */
const LOCK_ATTEMPTS = 30
/** Statements outside of a transaction wait long for a lock, because nothing waits behind them. */
const ONLINE_LOCK_ATTEMPTS = 3
const ONLINE_LOCK_TIMEOUT_MS = 20_000

/** A migration of 0.1.0, which was never published. Its databases are rejected, because later versions start with other migrations. */
const OF_VERSION_0_1 = 'kernel/0001_idempotency_keys'

/** Runs all pending migrations. Returns their names as `part/name`. */
export async function migrate(database: Database, parts: readonly MigratedPart[]): Promise<string[]> {
  if ((await pendingOf(parts, await appliedIn(database))).length === 0) return []
  return database.session((client) => underMigrationLock(client, () => migrateLocked(client, parts)))
}

export interface LockWait {
  /** Receives one line about the session that holds the lock. */
  readonly log?: Logger | undefined
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined
  readonly warnAfterMs?: number
}

/** Runs `work` while no other process migrates. The lock ends with the session if the unlock fails. */
export async function underMigrationLock<T>(client: Session, work: () => Promise<T>, wait?: LockWait): Promise<T> {
  await lockMigrations(client, wait)
  const result = await work()
  await client.query('select pg_advisory_unlock($1)', [LOCK_KEY])
  return result
}

/** Names of the migrations that have not run yet, as `part/name`. */
export async function pendingMigrations(client: Session, parts: readonly MigratedPart[]): Promise<string[]> {
  const known: ReadonlyMap<string, string> = (await hasMigrations(client)) ? await applied(client) : new Map()
  return (await pendingOf(parts, known)).map(({ part, name }) => `${part}/${name}`)
}

/** As `migrate`, under the lock of the caller. */
export async function migrateLocked(client: Session, parts: readonly MigratedPart[]): Promise<string[]> {
  if (!(await hasMigrations(client))) {
    await client.query(`create schema if not exists ${SCHEMA}`)
    await client.query(`create table if not exists ${SCHEMA}.migrations (
      part text not null, name text not null, checksum text not null,
      applied_at timestamptz(3) not null default now(), primary key (part, name))`)
  }
  const pending = await pendingOf(parts, await applied(client))
  for (const one of pending) {
    const { up } = one
    const isApplied =
      typeof up === 'string'
        ? await retryOnLock(() => apply(client, one, up), { maxAttempts: LOCK_ATTEMPTS })
        : await retryOnLock(() => applyOnline(client, one, up), { maxAttempts: ONLINE_LOCK_ATTEMPTS })
    if (!isApplied) {
      throw DependencyUnavailable(
        `The migration ${one.part}/${one.name} needs a table that another session keeps locked, such as a dump or a long transaction. ` +
          'End that session (pg_locks), then start again.',
      )
    }
  }
  await client.query('reset all') // runOnline changes settings of the session
  return pending.map(({ part, name }) => `${part}/${name}`)
}

/**
 * Waits for the lock of all migrations, which the end of the session releases. It polls: a waiting statement has a snapshot, for whose end
 * `create index concurrently` waits.
 */
export async function lockMigrations(
  client: Session,
  { log, signal, warnAfterMs = WARN_AFTER_MS }: LockWait = {},
): Promise<void> {
  const warnAt = performance.now() + warnAfterMs
  for (let isWarned = false; ; ) {
    signal?.throwIfAborted()
    const { rows } = await client.query('select pg_try_advisory_lock($1) as "isLocked"', [LOCK_KEY])
    if (rows[0].isLocked) return
    if (!isWarned && performance.now() >= warnAt) {
      isWarned = true
      log?.warn(
        { holder: await lockHolder(client) },
        'waiting for the migrations of another process (pg_stat_activity)',
      )
    }
    await sleep(LOCK_RETRY_MS)
  }
}

/** Absent values are hidden from the role, or the lock was released. */
async function lockHolder(client: Session): Promise<object | undefined> {
  const { rows } = await client.query(
    `select pid, application_name as application, client_addr as address
     from pg_locks join pg_stat_activity using (pid)
     where locktype = 'advisory' and granted and objsubid = 1 and ((classid::bigint << 32) | objid::bigint) = $1
       and database = (select oid from pg_database where datname = current_database())`,
    [LOCK_KEY],
  )
  return rows[0]
}

/** Runs each statement outside of a transaction, and the statements that it returns. */
export async function runOnline(client: Session, statements: readonly string[]): Promise<void> {
  await client.query(`set lock_timeout = ${ONLINE_LOCK_TIMEOUT_MS}`)
  await client.query(`set search_path = ${SCHEMA}, pg_temp`)
  await client.query(`set timezone = 'UTC'`)
  for (const text of statements) {
    const { rows = [] } = await client.query(text)
    for (const { statement } of rows) if (statement) await client.query(statement)
  }
}

type Named = Migration & { readonly part: string }

/** Waits briefly for a lock, because queries of other processes wait behind it. */
async function apply(client: Session, migration: Named, up: string): Promise<true> {
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
    await client.query(`set local search_path = ${SCHEMA}, pg_temp`)
    await client.query(`set local timezone = 'UTC'`)
    await client.query(up)
    await record(client, migration)
    await client.query('commit')
    return true
  } catch (error) {
    await client.query('rollback').catch(() => undefined) // a lost connection has rolled back; its error is thrown
    throw error
  }
}

async function applyOnline(client: Session, migration: Named, up: readonly string[]): Promise<true> {
  await runOnline(client, up)
  await record(client, migration)
  return true
}

const record = (client: Session, { part, name, up }: Named) =>
  client.query(`insert into ${SCHEMA}.migrations (part, name, checksum) values ($1, $2, $3)`, [
    part,
    name,
    checksum(up),
  ])

async function pendingOf(parts: readonly MigratedPart[], known: ReadonlyMap<string, string>) {
  if (known.has(OF_VERSION_0_1)) {
    throw new Error(
      'The database belongs to Tenantry 0.1.0, which this version cannot upgrade. Use an empty database, or run Tenantry 0.1.0.',
    )
  }
  const all = parts.flatMap(({ part, migrations }) => migrations.map((migration) => ({ part, ...migration })))
  for (const { part, name, up } of all) {
    const kept = known.get(`${part}/${name}`)
    if (kept && kept !== checksum(up)) {
      throw new Error(
        `migration ${part}/${name} was changed after its run; restore its former text, and add a new migration for the change`,
      )
    }
  }
  return all.filter(({ part, name }) => !known.has(`${part}/${name}`))
}

async function hasMigrations(client: Session): Promise<boolean> {
  const { rows } = await client.query(`select to_regclass('${SCHEMA}.migrations') is not null as exists`)
  return rows[0].exists
}

/** Whether migrations of a backoffice have begun in this database. */
export async function isBackoffice(database: Database): Promise<boolean> {
  const { rows } = await database.sql(`select to_regclass('${SCHEMA}.migrations') is not null as exists`)
  return rows[0].exists
}

async function appliedIn(database: Database): Promise<Map<string, string>> {
  if (!(await isBackoffice(database))) return new Map()
  return checksums((await database.sql(`select part, name, checksum from ${SCHEMA}.migrations`)).rows)
}

const applied = async (client: pg.ClientBase) =>
  checksums((await client.query(`select part, name, checksum from ${SCHEMA}.migrations`)).rows)

const checksums = (rows: { part: string; name: string; checksum: string }[]) =>
  new Map(rows.map(({ part, name, checksum }) => [`${part}/${name}`, checksum]))

/** @param up of a migration */
export const checksum = (up: Migration['up']): string => createHash('sha256').update(sqlOf(up)).digest('hex')

/** The SQL of a migration as one text. */
export const sqlOf = (up: Migration['up']): string => (typeof up === 'string' ? up : up.join(';\n'))
