/** `tenantry doctor` as a person would run it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../testing/tenancy.ts'
import { type Program, programWith } from './program.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let directory: string
let made: TestTenancy<[]>
let tenantry: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-doctor-'))
  made = await testTenancy(inject('postgresUrl'))
  tenantry = programWith({
    DATABASE_URL: made.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
  })
})
afterAll(async () => {
  await tenantry?.killAll()
  await made?.end()
  await rm(directory, { recursive: true, force: true })
})

test('nothing wrong', async () => {
  expect(await tenantry.run('doctor')).toEqual({ code: 0, stdout: 'nothing found\n', stderr: '' })
  const { code, stdout } = await tenantry.run('doctor', '--json')
  expect({ code, report: JSON.parse(stdout) }).toEqual({ code: 0, report: { status: 'ok', checks: [] } })
})

test('--prove tells what is for information only, and that is no failure', async () => {
  const { code, stdout, stderr } = await tenantry.run('doctor', '--prove')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(
    /^severity +code +message +remedy\ninfo +isolation\.public-temporary +main: database test_\w+ lets/,
  )
})

test('findings are a table, and exit code 6', async () => {
  const { database } = made.tenancy.kernel
  const { rows } = await database.sql('select login from multitenancy.placement_logins')
  const [{ login }] = rows
  await database.sql(`alter role ${login} createdb`)
  const [plain, text, json] = [
    await tenantry.run('doctor'),
    await tenantry.run('doctor', '--prove'),
    await tenantry.run('doctor', '--prove', '--json'),
  ]
  await database.sql(`alter role ${login} nocreatedb`)
  expect(plain.code).toBe(0)
  expect(text.code).toBe(6)
  expect(text.stdout).toMatch(
    new RegExp(
      `^error +isolation\\.login-creates-databases +main: role ${login} may .+ alter role ${login} nocreatedb$`,
      'm',
    ),
  )
  expect(text.stderr).toBe('error: errors: 1, warnings: 0\ncode:  E_FINDINGS\n')
  expect(json.code).toBe(6)
  expect(JSON.parse(json.stdout)).toMatchObject({
    status: 'error',
    checks: [
      { name: 'isolation', severity: 'error', code: 'isolation.login-creates-databases', fixable: false },
      { severity: 'info' },
    ],
  })
  expect(JSON.parse(json.stderr)).toMatchObject({ code: 'E_FINDINGS' })
})
