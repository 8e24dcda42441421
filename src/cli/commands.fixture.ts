/** Creates programs with a configuration and one migration, each on its own database. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, inject } from 'vitest'
import { EXAMPLE_PLANS } from '../service/settings/plans.ts'
import type { TestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { createProgramDatabase, type InProcess, inProcess } from './in-process.fixture.ts'

export interface Program {
  readonly tenantry: InProcess
  /** Directory of the configuration and the migrations. */
  readonly directory: string
  /** Returns the JSON value of a command that must succeed without output on standard error. */
  json(...argv: string[]): Promise<any>
  writeMigration(name: string, up: string, down: string): Promise<void>
}

/** Opens programs in the process of one test file, and closes them after its tests. */
export function usePrograms() {
  const opened: (() => Promise<void>)[] = []
  afterAll(() => Promise.all(opened.map((end) => end())))

  /** @param database default: one with the tables of the program. */
  return async function openProgram(
    database: Promise<TestDatabase> = createProgramDatabase(inject('postgresUrl')),
  ): Promise<Program> {
    const { url } = await database
    const directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
    const config = join(directory, 'tenantry.config.json')
    await writeFile(
      config,
      JSON.stringify({
        migrations: 'migrations',
        plans: EXAMPLE_PLANS,
        tenants: { retentionDays: 0, autoPurge: false },
      }),
    )
    await mkdir(join(directory, 'migrations'))
    const tenantry = inProcess({
      DATABASE_URL: url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
      TENANTRY_DATA_DIR: join(directory, 'data'),
      TENANTRY_CONFIG: config,
    })
    opened.push(async () => {
      await tenantry.close()
      await dropWithRoles(inject('postgresUrl'), await database)
      await rm(directory, { recursive: true, force: true })
    })
    const program: Program = {
      tenantry,
      directory,
      async json(...argv) {
        const { code, stdout, stderr } = await tenantry.run(...argv, '--json')
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
        return JSON.parse(stdout)
      },
      async writeMigration(name, up, down) {
        await writeFile(join(directory, 'migrations', `${name}.sql`), `-- up\n${up};\n-- down\n${down};\n`)
        await tenantry.close() // a tenancy reads migrations when it opens
      },
    }
    await program.writeMigration('0001_notes', 'create table notes (body text)', 'drop table notes')
    return program
  }
}
