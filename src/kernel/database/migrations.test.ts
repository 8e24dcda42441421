import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database } from './database.ts'
import { lockMigrations, type MigratedPart, migrate } from './migrations.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database

beforeEach(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url }, log)
})
afterEach(async () => {
  await database.close()
  await created.drop()
})

const part = (name: string, ...migrations: [name: string, up: string | readonly string[]][]): MigratedPart => ({
  part: name,
  migrations: migrations.map(([name, up]) => ({ name, up })),
})
const notes = part('notes', ['0001_notes', 'create table notes (title text)'])
const counted = part(
  'counted',
  ['0001_counters', 'create table counters (runs integer)'],
  ['0002_count', 'insert into counters values (1)'],
)

const tables = async (): Promise<string[]> =>
  (await database.sql(`select tablename from pg_tables where schemaname = 'multitenancy' order by 1`)).rows.map(
    ({ tablename }) => tablename,
  )
const recorded = async (): Promise<string[]> =>
  (
    await database.sql(`select part || '/' || name as name from multitenancy.migrations order by applied_at, 1`)
  ).rows.map(({ name }) => name)

test('migrations run in order, once, in the schema of the backoffice, and are recorded', async () => {
  expect(await migrate(database, [notes, counted])).toEqual([
    'notes/0001_notes',
    'counted/0001_counters',
    'counted/0002_count',
  ])
  expect(await tables()).toEqual(['counters', 'migrations', 'notes'])
  expect(await migrate(database, [notes, counted])).toEqual([])
  expect((await recorded()).toSorted()).toEqual(['counted/0001_counters', 'counted/0002_count', 'notes/0001_notes'])
})

test('only a new migration, or a new part, runs', async () => {
  await migrate(database, [notes])
  const more = part(
    'notes',
    ['0001_notes', 'create table notes (title text)'],
    ['0002_body', 'alter table notes add body text'],
  )
  expect(await migrate(database, [more, counted])).toEqual([
    'notes/0002_body',
    'counted/0001_counters',
    'counted/0002_count',
  ])
})

test('a migration that waits for a lock blocks no reader, and runs when the lock is free', async () => {
  await migrate(database, [notes])
  const release = Promise.withResolvers<void>()
  const holds = Promise.withResolvers<void>()
  const holder = database.transaction(async () => {
    await database.sql('select from multitenancy.notes') // such as a dump
    holds.resolve()
    await release.promise
  })
  await holds.promise
  const more = part(
    'notes',
    ['0001_notes', 'create table notes (title text)'],
    ['0002_body', 'alter table notes add body text'],
  )
  const migrating = migrate(database, [more])
  await eventually(async () => {
    const { rows } = await database.sql(
      `select from pg_stat_activity where datname = current_database() and query = 'rollback'`,
    )
    expect(rows.length).toBeGreaterThan(0)
  })
  // Without the limit, this read would wait behind the migration until the holder ends.
  expect((await database.sql('select from multitenancy.notes')).rows).toEqual([])
  release.resolve()
  await holder
  expect(await migrating).toEqual(['notes/0002_body'])
})

describe('statements outside of a transaction', () => {
  const INDEX = [
    'drop index concurrently if exists notes_title',
    `select format('create index concurrently notes_title on %s (title)', 'notes') as statement`,
  ]
  const indexed = part('notes', ['0001_notes', 'create table notes (title text)'], ['0002_index', INDEX])
  const isIndexed = async () =>
    (await database.sql(`select indisvalid from pg_index where indexrelid = to_regclass('multitenancy.notes_title')`))
      .rows
  const isWaiting = () =>
    eventually(async () => {
      const { rows } = await database.sql(
        `select from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'
           and datname = current_database()`,
      )
      expect(rows).toHaveLength(1)
    })

  /** A transaction that has changed the table, for whose end the creation of an index waits. */
  async function openWriter() {
    const release = Promise.withResolvers<void>()
    const writes = Promise.withResolvers<void>()
    const ended = database.transaction(async () => {
      await database.sql(`insert into multitenancy.notes values ('open')`)
      writes.resolve()
      await release.promise
    })
    await writes.promise
    return {
      async end() {
        release.resolve()
        await ended
      },
    }
  }

  test('block no writer while an index is created', async () => {
    await migrate(database, [notes])
    const writer = await openWriter()
    const migrating = migrate(database, [indexed])
    await isWaiting()
    await database.sql(`insert into multitenancy.notes values ('meanwhile')`)
    await writer.end()
    expect(await migrating).toEqual(['notes/0002_index'])
    expect(await isIndexed()).toEqual([{ indisvalid: true }])
    expect(await migrate(database, [indexed])).toEqual([])
  })

  test('run again after an interruption', async () => {
    await migrate(database, [notes])
    const writer = await openWriter()
    const interrupted = expect(migrate(database, [indexed])).rejects.toThrow('canceling statement')
    await isWaiting()
    await database.sql(`select pg_cancel_backend(pid) from pg_stat_activity where query like 'create index concurrently%'
      and datname = current_database()`)
    await interrupted
    expect(await isIndexed()).toEqual([{ indisvalid: false }])
    await writer.end()
    expect(await migrate(database, [indexed])).toEqual(['notes/0002_index'])
    expect(await isIndexed()).toEqual([{ indisvalid: true }])
  })

  test('run once in ten concurrent processes', async () => {
    const processes = Array.from({ length: 10 }, () => new Database({ url: created.url, max: 2 }, log))
    const runs = await Promise.all(processes.map((process) => migrate(process, [indexed])))
    await Promise.all(processes.map((process) => process.close()))
    expect(runs.flat()).toEqual(['notes/0001_notes', 'notes/0002_index'])
    expect(await isIndexed()).toEqual([{ indisvalid: true }])
  })
})

test('a part that is not migrated keeps its tables', async () => {
  await migrate(database, [notes, counted])
  expect(await migrate(database, [counted])).toEqual([])
  expect(await tables()).toContain('notes')
})

test('a current schema needs only a read', async () => {
  expect(await migrate(database, [])).toEqual([])
  expect(await tables()).toEqual([])
})

describe('ten concurrent processes', () => {
  test('run each migration once', async () => {
    const processes = Array.from({ length: 10 }, () => new Database({ url: created.url, max: 2 }, log))
    const runs = await Promise.all(processes.map((process) => migrate(process, [notes, counted])))
    await Promise.all(processes.map((process) => process.close()))
    expect(runs.flat().toSorted()).toEqual(['counted/0001_counters', 'counted/0002_count', 'notes/0001_notes'])
    expect((await database.sql('select sum(runs)::int as runs from multitenancy.counters')).rows).toEqual([{ runs: 1 }])
  })

  test('run each migration once on connections of one pool', async () => {
    const runs = await Promise.all(Array.from({ length: 10 }, () => migrate(database, [counted])))
    expect(runs.flat()).toHaveLength(2)
  })
})

describe('a migration that was changed after it had been run', () => {
  const changed = part('notes', ['0001_notes', 'create table notes (title text, body text)'])

  test('prevents all migrations, also earlier ones', async () => {
    await migrate(database, [notes])
    await expect(migrate(database, [counted, changed])).rejects.toThrow('migration notes/0001_notes was changed')
    expect(await tables()).toEqual(['migrations', 'notes'])
  })
})

test('rejects a database of 0.1.0 and does not change it', async () => {
  await migrate(database, [part('kernel', ['0001_idempotency_keys', 'create table idempotency_keys (scope text)'])])
  const rejected = migrate(database, [part('kernel', ['0001_kernel', 'create table job_names (name text)'])])
  await expect(rejected).rejects.toThrow('The database belongs to Tenantry 0.1.0, which this version cannot upgrade.')
  expect(await tables()).toEqual(['idempotency_keys', 'migrations'])
})

describe('a migration that fails', () => {
  const broken = part(
    'broken',
    ['0001_good', 'create table good (a integer)'],
    ['0002_bad', `create table bad (a integer); insert into bad values (1); insert into bad values ('none')`],
    ['0003_later', 'create table later (a integer)'],
  )
  const fixed = part(
    'broken',
    ['0001_good', 'create table good (a integer)'],
    ['0002_bad', 'create table bad (a integer)'],
    ['0003_later', 'create table later (a integer)'],
  )

  test('is rolled back; earlier migrations stay, and later ones do not run', async () => {
    await expect(migrate(database, [broken])).rejects.toThrow('invalid input syntax')
    expect(await tables()).toEqual(['good', 'migrations'])
    expect(await recorded()).toEqual(['broken/0001_good'])
  })

  test('does not block a process with a valid migration', async () => {
    await expect(migrate(database, [broken])).rejects.toThrow()
    expect(await migrate(database, [fixed])).toEqual(['broken/0002_bad', 'broken/0003_later'])
    expect(await tables()).toEqual(['bad', 'good', 'later', 'migrations'])
  })
})

test('a process that waits for the lock logs its holder once, and ends the wait on its signal', async () => {
  const lines: string[] = []
  const logger = createLogger({ level: 'warn', write: (line) => void lines.push(line) })
  const stop = new AbortController()
  await database.session(async (holder) => {
    await lockMigrations(holder)
    const [{ pid }] = (await holder.query('select pg_backend_pid() as pid')).rows
    const waiting = database.session((client) =>
      lockMigrations(client, { log: logger, signal: stop.signal, warnAfterMs: 0 }),
    )
    waiting.catch(() => undefined)
    await eventually(() => expect(lines).toHaveLength(1))
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      msg: 'waiting for the migrations of another process (pg_stat_activity)',
      holder: { pid },
    })
    stop.abort(new Error('interrupted'))
    await expect(waiting).rejects.toThrow('interrupted')
  })
  expect(lines).toHaveLength(1)
})
