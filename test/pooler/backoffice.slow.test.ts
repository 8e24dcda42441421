/** A pooler between Tenantry and the backoffice: rejected at the start in transaction mode, accepted in session mode. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { programWith } from '../../src/cli/program.fixture.ts'
import { createInstallation, type Installation } from '../../src/drivers/isolation/roles/installation.fixture.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { assertSeparateSessions, SharedSessions } from '../../src/kernel/database/session-check.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { installed, notificationsReceived, TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { startPgBouncer } from './pgbouncer.ts'

const BUSY_CLIENTS = 6
const CHECKS = 20

let installation: Installation
beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'))
})
afterAll(() => installation?.end())

/** URL of the backoffice through a pooler that ends with the test. */
async function pooled(pooling: Parameters<typeof startPgBouncer>[2], url = installation.url): Promise<string> {
  const pooler = await startPgBouncer(url, [url], pooling)
  onTestFinished(() => pooler.stop())
  return pooler.through(url)
}

/** Sends transactions of other clients until the test ends. */
async function keepBusy(url: string): Promise<void> {
  const stop = new AbortController()
  const busy = Array.from({ length: BUSY_CLIENTS }, async (_, index) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    while (!stop.signal.aborted) await client.query(`select pg_sleep(${index / 10_000})`)
    await client.end()
  })
  onTestFinished(async () => {
    stop.abort()
    await Promise.all(busy)
  })
}

describe('the check of sessions', () => {
  test('accepts a direct connection', () => assertSeparateSessions(installation.url))

  test('accepts a pooler in session mode, also next to other clients', async () => {
    const url = await pooled({ mode: 'session', size: BUSY_CLIENTS + 2 })
    await assertSeparateSessions(url)
    await keepBusy(url)
    for (let check = 0; check < CHECKS; check += 1) await assertSeparateSessions(url)
  })

  test.each([
    { size: 1 },
    { size: 2, isRotating: true },
    { size: 5, isRotating: true },
    { size: 5 },
    { mode: 'statement', size: 5 },
  ] as const)('rejects a pooler that shares sessions: %o', async (pooling) => {
    const url = await pooled(pooling)
    await expect(assertSeparateSessions(url)).rejects.toThrow(SharedSessions)
    await keepBusy(url)
    for (let check = 0; check < CHECKS; check += 1) {
      await expect(assertSeparateSessions(url)).rejects.toThrow(SharedSessions)
    }
  })
})

test('the service exits with 2 behind a pooler in transaction mode, and creates no tables', async () => {
  const database = await createTestDatabase(inject('postgresUrl'))
  onTestFinished(() => database.drop())
  const tenantry = programWith({
    DATABASE_URL: await pooled({ size: 5 }, database.url),
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(tmpdir(), 'tenantry-never'),
    PORT: '0',
  })
  const { code, stdout, stderr } = await tenantry.run('serve')
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain('DATABASE_URL: The URL of the backoffice database connects to a pooler in transaction mode.')
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const { rows } = await client.query(`select to_regnamespace('multitenancy') as schema`)
  await client.end()
  expect(rows).toEqual([{ schema: null }])
})

test('a tenancy works behind a pooler in session mode', async () => {
  const { tenantUrl } = await installation.prepare()
  const tenancy = await createTenancy({
    database: { url: await pooled({ mode: 'session', size: 30 }) },
    appKey: TEST_APP_KEY,
    placements: { main: { tenantUrl } },
    isolation: [schemaPg()],
    logger: createLogger({ level: 'silent' }),
  })
  onTestFinished(() => tenancy.stop())
  expect(await installed(tenancy, { id: 'acme', name: 'Acme' })).toMatchObject({ status: 'active' })
  await notificationsReceived(tenancy)
  const { pool } = await tenancy.tenant('acme')
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})
