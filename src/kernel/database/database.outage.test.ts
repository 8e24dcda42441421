import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database, isDatabaseUnavailable } from './database.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
let onlooker: Database

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 5 }, log)
  onlooker = new Database({ url: `${created.url}?application_name=onlooker`, max: 1 }, log)
  await database.sql('create table notes (title text)')
})
afterAll(async () => {
  await database.close()
  await onlooker.close()
  await created.drop()
})

const write = (title: string) => database.sql('insert into notes (title) values ($1)', [title])
const titles = async () => (await database.sql('select title from notes')).rows.map(({ title }) => title)
const connections = async (applicationName: string): Promise<number> => {
  const { rows } = await onlooker.sql(
    'select count(*) as count from pg_stat_activity where datname = current_database() and application_name = $1',
    [applicationName],
  )
  return rows[0].count
}
/** The server ends all connections of `database`. */
const terminateAll = async () => {
  const { rows } = await onlooker.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'tenantry'`,
  )
  expect(rows.length).toBeGreaterThan(0)
}
/** Ends its own connection. */
const terminateSelf = () => database.sql('select pg_terminate_backend(pg_backend_pid())')

describe('a session', () => {
  test('has a separate connection, whose settings end with it', async () => {
    const pid = await database.session(async (client) => {
      await client.query('select pg_advisory_lock(1)')
      await client.query(`set application_name = 'a session'`)
      return (await client.query('select pg_backend_pid() as pid')).rows[0].pid
    })
    await eventually(async () => {
      const { rows } = await onlooker.sql('select from pg_stat_activity where pid = $1', [pid])
      expect(rows).toEqual([])
    })
  })
})

describe('an unavailable server', () => {
  const failureOf = async (work: () => Promise<unknown>) => work().catch((error: unknown) => error)
  const isUnavailable = (error: unknown) => isDatabaseUnavailable(error)

  test('is distinguished from an invalid statement', async () => {
    expect(isUnavailable(await failureOf(() => database.sql('select 1 / 0')))).toBe(false)
    expect(isUnavailable(await failureOf(() => database.sql('selekt')))).toBe(false)
    expect(isUnavailable(undefined)).toBe(false)
    expect(isUnavailable('ECONNREFUSED')).toBe(false)
  })

  test('refuses the connection', async () => {
    for (const host of ['127.0.0.1', 'localhost']) {
      const nowhere = new Database({ url: `postgres://tenantry@${host}:1/tenantry` }, log)
      expect(await failureOf(() => nowhere.sql('select 1'))).toSatisfy(isUnavailable)
      expect(await failureOf(() => nowhere.transaction(async () => undefined))).toSatisfy(isUnavailable)
      expect(await failureOf(() => nowhere.session(async () => undefined))).toSatisfy(isUnavailable)
      expect(
        await failureOf(() =>
          nowhere.listen(
            'news',
            () => undefined,
            () => undefined,
          ),
        ),
      ).toSatisfy(isUnavailable)
      await nowhere.close()
    }
  })

  test('accepts the connection and closes it', async () => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const broken = new Database({ url: `postgres://tenantry@127.0.0.1:${port}/tenantry` }, log)
    expect(await failureOf(() => broken.sql('select 1'))).toSatisfy(isUnavailable)
    await broken.close()
    server.close()
  })

  test('ends a connection during a statement', async () => {
    expect(await failureOf(terminateSelf)).toSatisfy(isUnavailable)
    expect(await titles()).toEqual([])
  })

  test('ends a connection that waits in the pool', async () => {
    await database.sql('select 1')
    await terminateAll()
    await eventually(async () => expect(await titles()).toEqual([]))
  })

  test('ends a connection between two statements of a transaction', async () => {
    const failure = await failureOf(() =>
      database.transaction(async () => {
        await write('a')
        await terminateAll()
        await eventually(async () => expect(await failureOf(() => write('b'))).toSatisfy(isUnavailable))
        await write('c')
      }),
    )
    expect(failure).toSatisfy(isUnavailable)
    await eventually(async () => expect(await titles()).toEqual([])) // further connections may be ending
  })

  test('ends the connection of a session', async () => {
    const failure = await failureOf(() =>
      database.session(async (client) => {
        await terminateAll()
        await eventually(() => expect(client.query('select 1')).rejects.toSatisfy(isUnavailable))
        await client.query('select 1')
      }),
    )
    expect(failure).toSatisfy(isUnavailable)
    await eventually(async () => expect(await titles()).toEqual([])) // further connections may be ending
  })
})

test('close ends every connection, with and without Kysely, and is safe to repeat', async () => {
  const own = new Database({ url: `${created.url}?application_name=short-lived` }, log)
  await own.sql('select 1')
  expect(await connections('short-lived')).toBe(1)
  await own.close()
  await own.close()
  await eventually(async () => expect(await connections('short-lived')).toBe(0))
  await expect(own.sql('select 1')).rejects.toThrow()
})
