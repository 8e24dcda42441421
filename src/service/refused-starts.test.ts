/** Configurations with which the service does not start. */
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createProgramDatabase, inProcess, type Run } from '../cli/in-process.fixture.ts'
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

  test('with an application key that is not the one of the database', async () => {
    const database = await createProgramDatabase(inject('postgresUrl'))
    try {
      const env = {
        DATABASE_URL: database.url,
        TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
        TENANTRY_DATA_DIR: never,
      }
      expect((await start(['backoffice:setup'], { ...env, TENANTRY_APP_KEY: TEST_APP_KEY }).ended).code).toBe(0)
      const other = Buffer.alloc(32, 8).toString('base64')
      const { code, stdout } = await start(['serve'], { ...env, TENANTRY_APP_KEY: other }).ended
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    } finally {
      await dropWithRoles(inject('postgresUrl'), database)
    }
  })
})
