/** `tenantry tenant:import` by its output, exit code and rows. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createProgramDatabase, type Ended, type InProcess, inProcess } from '../cli/in-process.fixture.ts'
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'
import type { TestDatabase } from '../testing/database.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'

let directory: string
let created: TestDatabase
let database: Database
let tenantry: InProcess

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-import-'))
  created = await createProgramDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 2 }, createLogger({ level: 'silent' }))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ migrations: 'migrations' }))
  await mkdir(join(directory, 'migrations'))
  await writeFile(
    join(directory, 'migrations', '0001_notes.sql'),
    '-- up\ncreate table notes (id int primary key, body text);',
  )
  tenantry = inProcess({
    DATABASE_URL: created.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
  })
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await tenantry?.close()
  await database?.close()
  if (created) await dropWithRoles(inject('postgresUrl'), created)
  await rm(directory, { recursive: true, force: true })
})
beforeEach(() => database.sql('delete from t1_acme.notes'))

const ids = async () => (await database.sql('select id from t1_acme.notes order by id')).rows.map(({ id }) => id)
const fileWith = async (text: string) => {
  const file = join(directory, 'rows.sql')
  await writeFile(file, text)
  return file
}
const piped = (stdin: string, ...argv: string[]): Promise<Ended> =>
  tenantry.start(['tenant:import', 'acme', ...argv], { stdin }).ended

const ROWS = `SET row_security = off;\ninsert into notes values (1, 'é'), (2, null);\ninsert into notes values (3, 'a;b');\n`

test('a file, or standard input', async () => {
  const bytes = Buffer.byteLength(ROWS)
  const file = await fileWith(ROWS)
  const fromFile = await tenantry.run('tenant:import', 'acme', '--file', file)
  expect(fromFile).toMatchObject({ code: 0, stderr: "passed over, as they are for psql: 1 of a dump's settings\n" })
  expect(fromFile.stdout).toMatch(new RegExp(`^id +acme\nstatements +2\nrows +3\nbytes +${bytes}\n$`))
  expect(await ids()).toEqual([1, 2, 3])

  const rest = await piped('insert into notes values (4)', '--json')
  expect(rest).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(rest.stdout)).toEqual({ id: 'acme', statements: 1, rows: 1, bytes: 28 })
  expect(await piped('insert into notes values (5)', '--file', '-')).toMatchObject({ code: 0 })
  expect(await ids()).toEqual([1, 2, 3, 4, 5])
})

test('a dry run', async () => {
  const tried = await tenantry.run('tenant:import', 'acme', '--file', await fileWith(ROWS), '--dry-run')
  expect(tried).toMatchObject({ code: 0, stdout: expect.stringMatching(/^rows +3$/m) })
  expect(tried.stderr).toContain('a dry run: everything was rolled back\n')
  expect(await ids()).toEqual([])
})

describe('what goes wrong', () => {
  test.each<[number, string, RegExp]>([
    [
      1,
      `${ROWS}insert into notes values (9),\n(nowhere)`,
      /^error: line 5: column "nowhere" does not exist\nEverything was/,
    ],
    [
      1,
      `${ROWS}insert into notes values (1)`,
      /^error: line 4: .*notes_pkey": Key \(id\)=\(1\) already exists\.\nEverything/,
    ],
    [1, 'create table other ()', /^error: line 1: permission denied/],
    [
      2,
      `${ROWS}\\connect other`,
      /^error: line 4: \\connect is a command of psql.*\nEverything was rolled back; nothing was imp/,
    ],
    [2, `${ROWS}COPY notes (id) FROM stdin;\n7\n\\.\n`, /^error: line 4: COPY .*--column-inserts\n/],
    [2, `${ROWS}commit`, /^error: line 4: COMMIT: /],
  ])('exit code %i', async (code, text, words) => {
    expect(await piped(text)).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(words) })
    expect(await ids()).toEqual([])
  })

  test('as a problem with --json', async () => {
    const { code, stderr } = await piped('select 1;\nselec', '--json')
    expect({ code, ...JSON.parse(stderr) }).toMatchObject({
      code: 'E_INTERNAL',
      detail: expect.stringMatching(/^line 2: syntax error at or near "selec"\nEverything was rolled back/),
    })
    expect(code).toBe(1)
  })

  test.each<[number, string[], RegExp]>([
    [2, ['acme', '--file', 'missing.sql'], /missing\.sql: there is no such file/],
    [2, ['acme', '--file', '.'], /\.: this is a folder/],
    [3, ['nobody', '--file', 'missing.sql'], /nobody/],
  ])('exit code %i: %j', async (code, argv, words) => {
    expect(await tenantry.run('tenant:import', ...argv)).toMatchObject({ code, stderr: expect.stringMatching(words) })
  })
})
