/** `tenantry tenant:import` by its output, exit code and rows. */
import { describe, expect, test } from 'vitest'
import { type Ended, inProcess } from '../../cli/in-process.fixture.ts'
import { ROWS, useImport } from './import.fixture.ts'

const { fileWith, ids, tenantry } = useImport(inProcess)
const piped = (stdin: string, ...argv: string[]): Promise<Ended> =>
  tenantry.start(['tenant:import', 'acme', ...argv], { stdin }).ended

test('a file, or standard input', async () => {
  const bytes = Buffer.byteLength(ROWS)
  const file = await fileWith(ROWS)
  const fromFile = await tenantry.run('tenant:import', 'acme', '--file', file)
  expect(fromFile).toMatchObject({ code: 0, stderr: 'ignored settings of the dump: 1\n' })
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
  expect(tried.stderr).toContain('dry run: everything was rolled back\n')
  expect(await ids()).toEqual([])
})

describe('what goes wrong', () => {
  test.each<[number, string, RegExp]>([
    [
      2,
      `${ROWS}insert into notes values (9),\n(nowhere)`,
      /^error: line 5: nowhere is not accepted: values are strings, .*\nEverything was/,
    ],
    [
      2,
      `${ROWS}insert into notes values (1)`,
      /^error: line 4: .*notes_pkey": Key \(id\)=\(1\) already exists\.\nEverything/,
    ],
    [2, 'create table other ()', /^error: line 1: CREATE is not accepted: an import accepts INSERT .* tenant:exec/],
    [
      2,
      `${ROWS}\\connect other`,
      /^error: line 4: \\connect is a command of psql.*\nEverything was rolled back; nothing was imp/,
    ],
    [2, `${ROWS}COPY notes (id) FROM stdin;\n7\n`, /^error: line 6: the file ends within the rows of COPY/],
    [2, `${ROWS}update notes set id = 7`, /^error: line 4: UPDATE is not accepted/],
    [
      2,
      `${ROWS}insert into t1_other.notes values (7)`,
      /^error: line 4: t1_other\.notes is not a table of this tenant/,
    ],
    [2, `${ROWS}commit`, /^error: line 4: COMMIT: /],
  ])('exit code %i', async (code, text, words) => {
    expect(await piped(text)).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(words) })
    expect(await ids()).toEqual([])
  })

  test('as a problem with --json', async () => {
    const { code, stderr } = await piped("insert into notes values (1);\ninsert into notes values ('x')", '--json')
    expect({ code, ...JSON.parse(stderr) }).toMatchObject({
      ...{ status: 422, code: 'E_SQL_REJECTED', sqlState: '22P02' },
      detail: expect.stringMatching(/^line 2: invalid input syntax for type integer: "x"\nEverything was rolled back/),
    })
    expect(code).toBe(2)
  })

  test.each<[number, string[], RegExp]>([
    [2, ['acme', '--file', 'missing.sql'], /File .*missing\.sql not found/],
    [2, ['acme', '--file', '.'], /\. is a folder/],
    [3, ['unknown', '--file', 'missing.sql'], /unknown/],
  ])('exit code %i: %j', async (code, argv, words) => {
    expect(await tenantry.run('tenant:import', ...argv)).toMatchObject({ code, stderr: expect.stringMatching(words) })
  })
})

describe('with tables', () => {
  const DUMP = `SET row_security = off;\nCREATE TABLE public.notes (id integer PRIMARY KEY, title text DEFAULT 'public.x');
ALTER TABLE public.notes OWNER TO app;\nCOPY public.notes (id, title) FROM stdin;\n1\té\n\\.\nGRANT SELECT ON public.notes TO app;`
  const run = async (...argv: string[]) =>
    tenantry.run('tenant:import', 'acme', '--file', await fileWith(DUMP), '--with-tables', ...argv)

  test('reports rows and the skipped statements by kind', async () => {
    const bytes = Buffer.byteLength(DUMP)
    expect(await run('--baseline', '0001_notes', '--dry-run')).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/dry run/),
    })
    expect(await ids()).toEqual([])
    const { code, stdout, stderr } = await run('--baseline', '0001_notes')
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr:
        'difference from the tables of the migrations: the file has no column "body" in the table "notes"\n' +
        'difference from the tables of the migrations: the migrations have no column "title" in the table "notes"\n' +
        'strings that name the schema of the dump and were not changed: 1\n',
    })
    expect(stdout).toMatch(
      new RegExp(
        `^id +acme\nstatements +2\nrows +1\nbytes +${bytes}\nunchangedTexts +1\nskipped +settings: 1, owners: 1, grants: 1\ndifferences +2\n$`,
      ),
    )
    expect(await ids()).toEqual([1])
  })

  test.each<[number, string[], RegExp]>([
    [2, [], /baseline: Name the last migration whose tables the file contains: one of 0001_notes/],
    [2, ['--baseline', '0002_missing'], /one of 0001_notes/],
  ])('exit code %i: %j', async (code, argv, words) => {
    expect(await run(...argv)).toMatchObject({ code, stderr: expect.stringMatching(words) })
  })

  test('rejects a baseline without tables', async () => {
    const { code, stderr } = await tenantry.run('tenant:import', 'acme', '--file', 'x', '--baseline', '0001_notes')
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('Only an import with --with-tables') })
  })
})
