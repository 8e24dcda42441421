/** The command of this satellite, as the program has it: in use, and where the satellite is switched off. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createProgramDatabase, type InProcess, inProcess } from '../../cli/in-process.fixture.ts'
import type { TestDatabase } from '../../testing/database.ts'
import { dropWithRoles } from '../../testing/roles.ts'
import { TEST_APP_KEY } from '../../testing/tenancy.ts'

let directory: string
let database: TestDatabase
let tenantry: InProcess

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-audit-'))
  database = await createProgramDatabase(inject('postgresUrl'))
  tenantry = inProcess({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(directory, 'data'),
  })
})

afterAll(async () => {
  await tenantry?.close()
  if (database) await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

test('writes who did what at the terminal', async () => {
  await tenantry.run('tenant:create', 'Acme', '--id', 'acme')
  const { code, stdout } = await tenantry.run('tenant:audit:export', 'acme', '--format', 'ndjson')
  expect(code).toBe(0)
  const entries = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(entries).toMatchObject([{ action: 'tenants.install' }, { action: 'tenants.create', actor: { type: 'cli' } }])
})

test('is not there where the satellite is switched off, and says so', async () => {
  const config = join(directory, 'without-audit.json')
  await writeFile(config, JSON.stringify({ satellites: { auditLogs: false } }))
  const { code, stderr } = await tenantry.run('tenant:audit:export', '--config', config)
  expect(code).toBe(3)
  expect(stderr).toContain('The satellite "auditLogs" is switched off.')
})
