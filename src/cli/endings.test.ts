/** How commands end when they do not end by themselves, and what they ask before they destroy something. */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../testing/database.ts'
import { eventually, TEST_APP_KEY } from '../testing/tenancy.ts'
import { type Child, PROGRAM, type Program, programWith } from './program.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const MANY = 20_000
const SLEEP = 'select pg_sleep(300)'

let directory: string
let database: TestDatabase
let tenantry: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
  database = await createTestDatabase(inject('postgresUrl'))
  tenantry = programWith({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
  })
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
})

afterAll(async () => {
  await tenantry?.killAll()
  await database?.drop()
  await rm(directory, { recursive: true, force: true })
})

const rows = (sql: string): string =>
  execFileSync(process.execPath, ['--input-type=module', '-e', QUERY, database.url, sql], { encoding: 'utf8' })
