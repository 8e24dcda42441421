import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, onServer, type TestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database } from './database.ts'
import { isWriteOutage, writeFailure } from './write-failures.ts'
import { assertWritable } from './write-probe.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 1 }, log)
})
afterAll(async () => {
  await database.close()
  await created.drop()
})

describe('assertWritable', () => {
  test('passes on a writable database, and writes a temporary file', async () => {
    await assertWritable(database)
    await eventually(async () => {
      const { rows } = await database.sql(
        'select temp_files::int, temp_bytes::int from pg_stat_database where datname = current_database()',
      )
      expect(rows[0].temp_files).toBeGreaterThan(0)
      expect(rows[0].temp_bytes).toBeGreaterThan(100_000)
    })
  })

  test('leaves the settings of the session unchanged', async () => {
    const setting = async () => (await database.sql('show work_mem')).rows[0].work_mem
    const before = await setting()
    await assertWritable(database)
    expect(await setting()).toBe(before)
  })

  test('rejects a read-only database, also inside a transaction of the caller', async () => {
    const { pathname } = new URL(created.url)
    await onServer(inject('postgresUrl'), (server) =>
      server.sql(`alter database ${pathname.slice(1)} set default_transaction_read_only = on`),
    )
    const readOnly = new Database({ url: created.url, max: 2 }, log)
    try {
      const inTransaction = () => readOnly.transaction(() => assertWritable(readOnly))
      for (const attempt of [() => assertWritable(readOnly), inTransaction]) {
        const error = await attempt().catch((failure: unknown) => failure)
        expect(error).toMatchObject({ code: '25006' })
        expect(writeFailure(error)).toBe('database is read-only')
      }
    } finally {
      await readOnly.close()
    }
  })

  test('rejects an unreachable server', async () => {
    const unreachable = new Database({ url: unreachableUrl(created.url) }, log)
    const error = await assertWritable(unreachable).catch((failure: unknown) => failure)
    expect([isWriteOutage(error), writeFailure(error)]).toEqual([true, undefined])
    await unreachable.close()
  })
})

describe('writeFailure', () => {
  const raised = (state: string) =>
    database.sql(`do $$ begin raise sqlstate '${state}'; end $$`).catch((failure: unknown) => failure)

  test.each([
    ['25006', 'database is read-only'],
    ['53100', 'disk is full'],
    ['53200', 'server is out of memory'],
    ['58030', 'I/O error of the server'],
  ])('returns the reason of SQLSTATE %s', async (state, reason) => {
    const error = await raised(state)
    expect([writeFailure(error), isWriteOutage(error)]).toEqual([reason, true])
    expect(writeFailure(new AggregateError([new Error('other'), error]))).toBe(reason)
  })

  test.each(['23505', '40001', '53400', '22001'])('returns undefined for SQLSTATE %s', async (state) => {
    const error = await raised(state)
    expect([writeFailure(error), isWriteOutage(error)]).toEqual([undefined, false])
  })

  test('returns undefined for an error of another program with the same code', () => {
    expect(writeFailure(Object.assign(new Error('full'), { code: '53100' }))).toBeUndefined()
  })
})
