/** `tenantry tenant:import` into the tenant `acme` with one table, which is empty before each test. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { InProcess } from '../../cli/in-process.fixture.ts'
import type { Program } from '../../cli/program.fixture.ts'
import { useProgram } from '../../cli/program-database.fixture.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'

export const ROWS = `SET row_security = off;\ninsert into notes values (1, 'é'), (2, null);\ninsert into notes values (3, 'a;b');\n`

/** For one file. @param program in this process, or as child processes. */
export function useImport<P extends InProcess | Program>(program: (env: NodeJS.ProcessEnv) => P) {
  const tenantry = useProgram(program, {}, { migrations: 'migrations' })
  let database: Database
  beforeAll(async () => {
    const { directory } = tenantry
    database = new Database({ url: tenantry.database.url, max: 2 }, createLogger({ level: 'silent' }))
    await mkdir(join(directory, 'migrations'))
    await writeFile(
      join(directory, 'migrations', '0001_notes.sql'),
      '-- up\ncreate table notes (id int primary key, body text);',
    )
    expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
  })
  afterAll(() => database?.close())
  beforeEach(() => database.sql('delete from t1_acme.notes'))
  return {
    tenantry,
    get database() {
      return database
    },
    ids: async () => (await database.sql('select id from t1_acme.notes order by id')).rows.map(({ id }) => id),
    async fileWith(text: string): Promise<string> {
      const file = join(tenantry.directory, 'rows.sql')
      await writeFile(file, text)
      return file
    },
  }
}
