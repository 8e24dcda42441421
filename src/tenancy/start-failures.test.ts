/** Messages of a start that fails because of its configuration, and of a statement without the right. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { createLogger } from '../kernel/base/logger.ts'
import { createTestDatabase, onServer, type TestDatabase, unreachableUrl } from '../testing/base/database.ts'
import { installed, TEST_APP_KEY, testTenancy } from '../testing/base/tenancy.ts'
import { createTenancy, type TenancyConfig } from './tenancy.ts'

const FORM = 'must be a URL such as postgres://user:password@host:5432/database'
const ROLE = `weak_${randomUUID().slice(0, 8)}`

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase(inject('postgresUrl'))
  await onServer(database.url, (server) => server.sql(`create role ${ROLE} login password 'hunter2'`))
})
afterAll(async () => {
  await onServer(database.url, (server) => server.sql(`drop role ${ROLE}`))
  await database.drop()
})

const start = (url: string, options: Partial<TenancyConfig> = {}) =>
  createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    logger: createLogger({ level: 'silent' }),
    ...options,
  })

test.each(['localhost:5432/app', 'mysql://user:hunter2@localhost/app', 'https://example.com'])(
  'the URL %j is rejected before a connection, without its text',
  async (url) => {
    await expect(start(url)).rejects.toThrow(new Error(`database.url ${FORM}`))
    await expect(start(database.url, { placements: { eu: { url } } })).rejects.toThrow(`placements.eu.url ${FORM}`)
  },
)

test('an absent URL is rejected with its key', async () => {
  await expect(start('')).rejects.toThrow(`database.url is required: it ${FORM}`)
})

test('an unreachable server is an unavailable dependency, with its address and what to check', async () => {
  await expect(start(unreachableUrl(database.url))).rejects.toMatchObject({
    code: 'E_DEPENDENCY_UNAVAILABLE',
    message: expect.stringMatching(/^The database cannot be reached \(connect ECONNREFUSED .*:1\)\. Check that/),
    cause: expect.objectContaining({ code: 'ECONNREFUSED' }),
  })
})

test('an absent database has a hint', async () => {
  const url = Object.assign(new URL(database.url), { pathname: '/absent' }).href
  await expect(start(url)).rejects.toMatchObject({
    code: 'E_CONFIGURATION',
    message: 'database "absent" does not exist. Create the database, or correct its name in the URL.',
    cause: { code: '3D000' },
  })
})

test('a wrong password has a hint', async () => {
  const url = Object.assign(new URL(database.url), { username: ROLE, password: 'hunter3' }).href
  await expect(start(url)).rejects.toMatchObject({
    code: 'E_CONFIGURATION',
    message: `password authentication failed for user "${ROLE}". Check user and password in the URL of the database.`,
  })
})

test('a role without rights has a hint that names them', async () => {
  const url = Object.assign(new URL(database.url), { username: ROLE, password: 'hunter2' }).href
  await expect(start(url)).rejects.toMatchObject({
    code: 'E_CONFIGURATION',
    message: expect.stringMatching(
      /^permission denied for database .*\. The role in the URL of the database needs CREATE/,
    ),
  })
})

test('an absent folder of migrations is rejected with its complete path', async () => {
  const folder = join(import.meta.dirname, 'absent')
  await expect(start(database.url, { migrations: folder })).rejects.toThrow(
    `The folder of migrations ${folder} was not found.`,
  )
})

test('a statement of a tenant that changes tables has a hint that names migrations', async () => {
  const opened = await testTenancy(inject('postgresUrl'))
  try {
    await installed(opened.tenancy, { id: 'acme', name: 'Acme' })
    const acme = await opened.tenancy.tenant('acme')
    const message =
      /^permission denied for schema t1_acme\. Statements of a tenant read and write rows .*docs\/migrations\.md\.$/
    const denied = acme.pool.query('create table t (n int)')
    await expect(denied).rejects.toMatchObject({ message: expect.stringMatching(message), code: '42501' })
    const inside = acme.transaction((db) => db.schema.createTable('t').addColumn('n', 'integer').execute())
    await expect(inside).rejects.toThrow(message)
  } finally {
    await opened.end()
  }
})
