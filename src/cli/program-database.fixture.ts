/** The program on a database that has its tables, with an empty data directory. */
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
 * For one file. Hooks of the file come after this call.
 *
 * @param program in this process, or as child processes.
 * @param env in addition to what it needs.
 * @param config the content of its configuration file; without it, it has none.
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
