/** Configurations with which the service does not start. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createProgramDatabase, inProcess, type Run } from '../cli/in-process.fixture.ts'
import { type TestDatabase, unreachableUrl } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'

let parent: string
let never: string
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tenantry-refused-'))
  never = join(parent, 'never')
})
afterAll(() => rm(parent, { recursive: true, force: true }))

const start = (argv: readonly string[], env: NodeJS.ProcessEnv): Run =>
  inProcess({ PORT: '0', LOG_LEVEL: 'warn' }).start(argv, { env, stdin: '', isAlone: true })

describe('a start is rejected', () => {
  test('with all errors of the configuration reported together, before anything is opened', async () => {
    const env = { PORT: 'many', DATABASE_URL: 'mysql://x', TENANTRY_APP_KEY: 'short', TENANTRY_DATA_DIR: never }
    const { code, stdout, stderr } = await start(['serve'], env).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^error: The configuration is invalid:\n/)
    for (const name of ['PORT', 'DATABASE_URL', 'TENANTRY_APP_KEY']) expect(stderr).toContain(`\n  ${name}: `)
    expect(existsSync(never)).toBe(false)
  })

  test('without required settings in production', async () => {
    const env = { NODE_ENV: 'production', TENANTRY_DATA_DIR: never }
    const { code, stdout, stderr } = await start(['serve'], env).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const name of ['DATABASE_URL', 'TENANTRY_APP_KEY', 'TENANTRY_ADMIN_TOKEN']) expect(stderr).toContain(name)
    expect(existsSync(never)).toBe(false)
  })

  test('without the application key of an existing embedded PostgreSQL, and generates none', async () => {
    const data = join(parent, 'restored')
    await mkdir(join(data, 'postgres'), { recursive: true })
    await writeFile(join(data, 'postgres', 'PG_VERSION'), '18')
    const { code, stdout, stderr } = await start(['serve'], { TENANTRY_DATA_DIR: data }).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(`TENANTRY_APP_KEY: not set, and ${join(data, 'app-key')} does not exist`)
    expect(stderr).toContain('TENANTRY_OLD_APP_KEYS')
    expect(await readdir(data)).toEqual(['postgres'])
  })

  test('without the password of an existing embedded PostgreSQL, and generates none', async () => {
    const data = join(parent, 'without-password')
    await mkdir(join(data, 'postgres'), { recursive: true })
    await writeFile(join(data, 'postgres', 'PG_VERSION'), '18')
    const env = {
      TENANTRY_DATA_DIR: data,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    }
    const { code, stdout, stderr } = await start(['serve'], env).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(`${join(data, 'postgres-password')}: does not exist`)
    expect(stderr).toContain('Restore this file')
    expect(existsSync(join(data, 'postgres-password'))).toBe(false)
  })

  test('by an unreachable database, without a line about a lost connection', async () => {
    const env = { DATABASE_URL: unreachableUrl(inject('postgresUrl')), TENANTRY_DATA_DIR: join(parent, 'first') }
    const { code, stdout, stderr } = await start(['serve'], env).ended
    expect({ code, stdout }).toEqual({ code: 7, stdout: '' })
    expect(stderr).toContain('The database cannot be reached')
    expect(stderr).not.toContain('was lost')
  })

  test.each(['', 'half a key'])('with the application key "%s" in the data directory', async (content) => {
    const data = await mkdtemp(join(parent, 'damaged-'))
    await writeFile(join(data, 'app-key'), content)
    const { code, stdout, stderr } = await start(['serve'], { TENANTRY_DATA_DIR: data }).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(join(data, 'app-key'))
    expect(existsSync(join(data, 'postgres'))).toBe(false)
  })
})

describe('with an existing backoffice, a start is rejected', () => {
  let database: TestDatabase
  let env: NodeJS.ProcessEnv
  beforeAll(async () => {
    database = await createProgramDatabase(inject('postgresUrl'))
    env = { DATABASE_URL: database.url, TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests', TENANTRY_DATA_DIR: never }
    expect((await start(['backoffice:setup'], { ...env, TENANTRY_APP_KEY: TEST_APP_KEY }).ended).code).toBe(0)
  })
  afterAll(() => dropWithRoles(inject('postgresUrl'), database))

  test('with another application key', async () => {
    const other = Buffer.alloc(32, 8).toString('base64')
    const { code, stdout, stderr } = await start(['serve'], { ...env, TENANTRY_APP_KEY: other }).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const name of ['TENANTRY_APP_KEY', 'TENANTRY_OLD_APP_KEYS', join(never, 'app-key')])
      expect(stderr).toContain(name)
    expect(stderr).not.toContain(other)
    expect(existsSync(never)).toBe(false)
  })

  test('without an application key, and generates none', async () => {
    const { code, stdout, stderr } = await start(['serve'], env).ended
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(`TENANTRY_APP_KEY: not set, and ${join(never, 'app-key')} does not exist`)
    expect(existsSync(never)).toBe(false)
  })
})
