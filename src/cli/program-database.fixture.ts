/** Runs the program on its own database with an empty data directory. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { createProgramDatabase, type InProcess } from './in-process.fixture.ts'
import type { Program } from './program.fixture.ts'

export interface Installation {
  readonly directory: string
  readonly database: TestDatabase
  /** The required variables of the program. */
  readonly env: Readonly<Record<string, string>>
  /** Writes a file into the directory, an object as JSON, and returns its path. */
  fileWith(name: string, content: string | object): Promise<string>
}

interface RemovableInstallation extends Installation {
  remove(): Promise<void>
}

/** Creates an installation with an empty database before the tests of one file, or before each test. */
export function useInstallation(scope: 'file' | 'test'): Installation {
  const installation = {} as RemovableInstallation
  const [before, after] = scope === 'file' ? [beforeAll, afterAll] : [beforeEach, afterEach]
  before(async () => {
    Object.assign(installation, await createInstallation(createTestDatabase))
  })
  after(() => installation.remove?.())
  return installation
}

/**
 * Creates an installation with a migrated database before the tests of one file, and removes it after. Call it before other hooks.
 *
 * @param program runs in this process, or as child processes.
 * @param env variables in addition to the required ones.
 * @param config content of the configuration file. Default: no file.
 */
export function useProgram<P extends InProcess | Program>(
  program: (env: NodeJS.ProcessEnv) => P,
  env: NodeJS.ProcessEnv = {},
  config?: object,
): P & Installation {
  const fixture = {} as P & Installation
  let end: (() => Promise<void>) | undefined
  beforeAll(async () => {
    const { remove, ...installation } = await createInstallation(createProgramDatabase)
    const file = config && { TENANTRY_CONFIG: await installation.fileWith('tenantry.config.json', config) }
    const tenantry: InProcess | Program = program({ ...installation.env, ...file, ...env })
    Object.assign(fixture, tenantry, installation)
    end = async () => {
      await ('close' in tenantry ? tenantry.close() : tenantry.killAll())
      await remove()
    }
  })
  afterAll(() => end?.())
  return fixture
}

async function createInstallation(
  create: (serverUrl: string) => Promise<TestDatabase>,
): Promise<RemovableInstallation> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
  const database = await create(inject('postgresUrl'))
  return {
    directory,
    database,
    env: {
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
      TENANTRY_DATA_DIR: join(directory, 'data'),
      PORT: '0',
    },
    async fileWith(name, content) {
      const path = join(directory, name)
      await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
      return path
    },
    async remove() {
      await dropWithRoles(inject('postgresUrl'), database)
      await rm(directory, { recursive: true, force: true })
    },
  }
}
