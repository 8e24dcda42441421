/** Runs the program on a migrated database with an empty data directory. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import type { TestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { createProgramDatabase, type InProcess } from './in-process.fixture.ts'
import type { Program } from './program.fixture.ts'

/**
 * Creates the database and directory before the tests of one file, and removes them after. Call it before other hooks.
 *
 * @param program runs in this process, or as child processes.
 * @param env variables in addition to the required ones.
 * @param config content of the configuration file. Default: no file.
 */
export function useProgram<P extends InProcess | Program>(
  program: (env: NodeJS.ProcessEnv) => P,
  env: NodeJS.ProcessEnv = {},
  config?: object,
) {
  const fixture = {} as P & { readonly directory: string; readonly database: TestDatabase }
  let end: (() => Promise<void>) | undefined
  beforeAll(async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
    const database = await createProgramDatabase(inject('postgresUrl'))
    const configFile = join(directory, 'tenantry.config.json')
    if (config) await writeFile(configFile, JSON.stringify(config))
    const tenantry: InProcess | Program = program({
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
      TENANTRY_DATA_DIR: join(directory, 'data'),
      PORT: '0',
      ...(config ? { TENANTRY_CONFIG: configFile } : {}),
      ...env,
    })
    Object.assign(fixture, tenantry, { directory, database })
    end = async () => {
      await ('close' in tenantry ? tenantry.close() : tenantry.killAll())
      await dropWithRoles(inject('postgresUrl'), database)
      await rm(directory, { recursive: true, force: true })
    }
  })
  afterAll(() => end?.())
  return fixture
}
