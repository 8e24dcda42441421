/** Each error is a real one of PostgreSQL, node-postgres or the network. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import type { Outcome } from '../../kernel/resilience/circuit.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { ConnectionLimitReached } from '../isolation/driver.ts'
import { TenantIsSuspended } from '../tenant/errors.ts'
import { outcomesOf } from './classify.ts'

let database: TestDatabase
let admin: pg.Client
let name: string
beforeAll(async () => {
  database = await createTestDatabase(inject('postgresUrl'))
  name = new URL(database.url).pathname.slice(1)
  admin = new pg.Client(inject('postgresUrl'))
  await admin.connect()
})
afterAll(async () => {
  await admin.end()
  await database.drop()
})

const connected = async (url: string, more: pg.ClientConfig = {}): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url, ...more })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** The error of a query on a separate connection after `first`. */
const metBy = async (query: string, first: (client: pg.Client) => Promise<unknown> = async () => undefined) => {
  const client = await connected(database.url)
  try {
    await first(client)
    return await client.query(query).then(
      () => expect.unreachable('the query must fail'),
      (error: unknown) => error,
    )
  } finally {
    await client.end().catch(() => undefined)
  }
}

const refusalOf = (url: string, more?: pg.ClientConfig) =>
  connected(url, more).then(
    (client) => client.end().then(() => expect.unreachable('the connection must fail')),
    (error: unknown) => error,
  )

const asPlainRole = async (limit: string): Promise<unknown> => {
  const role = `${name}_login`
  await admin.query(`create role ${role} login password 'x' ${limit}`)
  const url = new URL(database.url)
  url.username = role
  url.password = 'x'
  try {
    return await refusalOf(url.href)
  } finally {
    await admin.query(`drop role ${role}`)
  }
}

const during = async (set: string, reset: string, meet: () => Promise<unknown>): Promise<unknown> => {
  await admin.query(set)
  try {
    return await meet()
  } finally {
    await admin.query(reset)
  }
}

type Row = [failure: string, meet: () => Promise<unknown>, shared: [Outcome, Outcome], own: [Outcome, Outcome]]

const ANSWERED: [Outcome, Outcome] = ['success', 'success']
const SERVER: [Outcome, Outcome] = ['failure', 'neither']
const TENANT: [Outcome, Outcome] = ['success', 'failure']
const UNKNOWN: [Outcome, Outcome] = ['neither', 'neither']

describe('classify for the server and the tenant, with a shared database and with its own', () => {
  test.each<Row>([
    ['a syntax error', () => metBy('selct 1'), ANSWERED, ANSWERED],
    ['a division by zero', () => metBy('select 1/0'), ANSWERED, ANSWERED],
    [
      'a statement that exceeds its timeout',
      () => metBy(`set statement_timeout = 1; select pg_sleep(9)`),
      ANSWERED,
      ANSWERED,
    ],
    [
      'a sequence without a value in the session, which has the SQLSTATE of a closed database',
      () => metBy('select lastval()'),
      ANSWERED,
      ANSWERED,
    ],
    [
      'a statement that could not reach another server',
      () => metBy(`do $$ begin raise sqlstate '08001'; end $$`),
      ANSWERED,
      ANSWERED,
    ],
    ['a statement about a missing database', () => metBy('alter database nobodys rename to x'), ANSWERED, ANSWERED],
    ['a port without a listener', () => refusalOf('postgres://x@127.0.0.1:1/x'), SERVER, SERVER],
    ['a port without a listener at two addresses', () => refusalOf('postgres://x@localhost:1/x'), SERVER, SERVER],
    ['an unknown host name', () => refusalOf('postgres://x@unknown.invalid/x'), SERVER, SERVER],
    ['a server that does not respond', neverAnswered, SERVER, SERVER],
    ['a query without a response', unansweredQuery, SERVER, SERVER],
    ['a pool without a free connection', exhaustedPool, SERVER, SERVER],
    ['a login with too many connections', () => asPlainRole('connection limit 0'), SERVER, SERVER],
    ['a rejected login', () => refusalOf(database.url.replace(/:[^:@]*@/, ':another@')), SERVER, SERVER],
    [
      'a statement that raises the state of a rejected login',
      () => metBy(`do $$ begin raise sqlstate '28P01'; end $$`),
      ANSWERED,
      ANSWERED,
    ],
    ['a missing database', () => refusalOf(`${database.url}_missing`), SERVER, TENANT],
    [
      'a closed database',
      () =>
        during(`alter database ${name} allow_connections false`, `alter database ${name} allow_connections true`, () =>
          refusalOf(database.url),
        ),
      SERVER,
      TENANT,
    ],
    [
      'a database with too many connections',
      () =>
        during(`alter database ${name} connection limit 0`, `alter database ${name} connection limit -1`, () =>
          asPlainRole(''),
        ),
      SERVER,
      TENANT,
    ],
    ['a missing file', missingFile, TENANT, TENANT],
    ['a terminated session', endedSession, SERVER, ['neither', 'failure']],
    ['no free connection for the tenant', async () => ConnectionLimitReached('wait'), UNKNOWN, UNKNOWN],
    ['a suspended tenant', async () => TenantIsSuspended('suspended'), UNKNOWN, UNKNOWN],
    ['an error of the host', async () => new TypeError('x is not a function'), UNKNOWN, UNKNOWN],
    ['a value that is not an error', async () => 'gone', UNKNOWN, UNKNOWN],
  ])('classifies %s', async (_, meet, shared, own) => {
    const error = await meet()
    const outcomesFor = (reach: Parameters<typeof outcomesOf>[1]) => {
      const { server, tenant } = outcomesOf(error, reach)
      return [server, tenant]
    }
    expect([outcomesFor('shared database'), outcomesFor('own database')]).toEqual([shared, own])
  })

  test('classifies the cause of an error wrapped by a driver', async () => {
    const missing = await refusalOf(`${database.url}_missing`)
    const wrapped = DependencyUnavailable('unreachable', { cause: missing })
    expect(outcomesOf(wrapped, 'own database')).toEqual({ server: 'success', tenant: 'failure' })
    expect(outcomesOf(DependencyUnavailable('unreachable'), 'own database')).toEqual({
      server: 'neither',
      tenant: 'neither',
    })
  })
})

async function neverAnswered(): Promise<unknown> {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  try {
    return await refusalOf(`postgres://x@127.0.0.1:${port}/x`, { connectionTimeoutMillis: 50 })
  } finally {
    silent.close()
  }
}

async function unansweredQuery(): Promise<unknown> {
  const client = await connected(database.url, { query_timeout: 20 })
  const error = await client.query('select pg_sleep(30)').catch((failure: unknown) => failure)
  await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
  await client.end().catch(() => undefined)
  return error
}

async function exhaustedPool(): Promise<unknown> {
  const pool = new pg.Pool({ connectionString: database.url, max: 1 })
  const held = await pool.connect()
  pool.options.connectionTimeoutMillis = 20
  const error = await pool.query('select 1').catch((failure: unknown) => failure)
  held.release()
  await pool.end()
  return error
}

const missingFile = () => metBy(`select pg_read_file('no/such')`)

const endedSession = () => metBy('select pg_terminate_backend(pg_backend_pid()), pg_sleep(9)')
