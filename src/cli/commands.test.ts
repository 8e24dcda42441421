/** Tests commands by their output and exit code; commands.migrations.test.ts tests those that migrate. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Program, usePrograms } from './commands.fixture.ts'
import type { Ended, InProcess } from './in-process.fixture.ts'

const openProgram = usePrograms()

let tenantry: InProcess
let directory: string
let json: Program['json']
beforeAll(async () => {
  ;({ tenantry, directory, json } = await openProgram())
  await json('tenant:create', 'Globex', '--id', 'globex')
})

/** Creates an active tenant. */
async function tenant(id: string, name = id): Promise<string> {
  await json('tenant:create', name, '--id', id)
  return id
}

describe('tenant commands', () => {
  test('tenant:list without tenants prints a message, and an empty list with --json', async () => {
    const none = ['tenant:list', '--q', 'nothing is named like this']
    expect(await tenantry.run(...none)).toEqual({ code: 0, stdout: '', stderr: 'none\n' })
    expect(await json(...none)).toEqual({ data: [], nextCursor: null })
  })

  test('tenant:create waits until the tenant is active', async () => {
    const metadata = JSON.stringify({ seats: 5 })
    const domains = ['--domain', 'a.example', '--domain', 'b.example']
    const given = ['--id', 'created', '--metadata', metadata, '--plan', 'pro', ...domains]
    expect(await json('tenant:create', ...given, 'Acme 日本')).toMatchObject({
      id: 'created',
      name: 'Acme 日本',
      status: 'active',
      metadata: { seats: 5, plan: 'pro' },
      domains: ['a.example', 'b.example'],
    })
  })

  test('tenant:list filters and pages tenants, and tenant:show prints one', async () => {
    await json('tenant:create', 'Listed first', '--id', 'listed-1', '--plan', 'pro')
    await tenant('listed-2', 'Listed last')
    const { stdout, stderr } = await tenantry.run('tenant:list', '--q', 'Listed', '--limit', '1')
    expect(stdout.split('\n')[0]).toMatch(/^id +name +status +isolation +placement +createdAt$/)
    expect(stdout.split('\n')[1]).toMatch(/^listed-2 +Listed last +active +schema-pg +main +\d{4}-/)
    const [, cursor = ''] = stderr.match(/^more: --cursor (\S+)$/m) ?? []
    const rest = await json('tenant:list', '--q', 'Listed', '--cursor', cursor)
    expect(rest.data).toMatchObject([{ id: 'listed-1' }])
    expect((await json('tenant:list', '--q', 'glob', '--status', 'active')).data).toMatchObject([{ id: 'globex' }])
    expect((await tenantry.run('tenant:show', 'listed-1')).stdout).toMatch(/^metadata\.plan +pro$/m)
  })

  test('tenant:exec runs SQL of the command line or a file in one transaction', async () => {
    const [one, other] = [await tenant('exec-1'), await tenant('exec-2')]
    await tenantry.run('tenant:exec', one, '--sql', "insert into notes values ('one'), (null)")
    const { stdout } = await tenantry.run('tenant:exec', one, '--sql', 'select body, 7 as seven from notes')
    expect(stdout).toBe('body  seven\none       7\n-         7\n')
    const file = join(directory, 'question.sql')
    await writeFile(file, 'select count(*)::int as notes from notes')
    expect(await json('tenant:exec', other, '--file', file)).toEqual([{ notes: 0 }])
    await writeFile(
      file,
      `insert into notes values ('a;b'); -- two\nselect body from notes; insert into nowhere values (1)`,
    )
    expect((await tenantry.run('tenant:exec', other, '--file', file)).code).toBe(2)
    await writeFile(file, `insert into notes values ('a;b'); -- two\nselect body from notes;`)
    expect(await json('tenant:exec', other, '--file', file)).toEqual([{ body: 'a;b' }])
  })

  test('tenant:seed runs SQL or a program in one transaction for each tenant', async () => {
    const [one, failing] = [await tenant('seed-1'), await tenant('seed-failing')]
    const file = join(directory, 'seed.sql')
    await writeFile(file, `insert into notes (body) values ('one; two');\ninsert into notes (body) values ('three');`)
    expect(await json('tenant:seed', one, '--file', file)).toEqual([{ id: one, isSeeded: true }])
    const program = join(directory, 'seed.ts')
    await writeFile(
      program,
      `export async function seed(db: any, { id }: { id: string }) {
        await db.insertInto('notes').values({ body: id }).execute()
        if (id === 'seed-failing') throw new Error('not this one')
      }`,
    )
    const { code, stdout } = await tenantry.run('tenant:seed', '--all', '--file', program, '--json')
    expect({ code, results: JSON.parse(stdout) }).toEqual({
      code: 1,
      results: expect.arrayContaining([
        { id: one, isSeeded: true },
        { id: failing, isSeeded: false, error: 'not this one', code: 'E_INTERNAL' },
      ]),
    })
    const bodies = async (id: string) =>
      (await json('tenant:exec', id, '--sql', 'select body from notes')).map(({ body }: any) => body)
    expect(await bodies(one)).toEqual(['one; two', 'three', one])
    expect(await bodies(failing)).not.toContain(failing)
  })

  test('tenant:suspend, tenant:activate and tenant:maintenance print the changed tenant', async () => {
    const id = await tenant('suspended')
    expect(await json('tenant:suspend', id)).toMatchObject({ status: 'suspended' })
    expect(await json('tenant:activate', id)).toMatchObject({ status: 'active' })
    const words = ['--message', 'moving house', '--retry-after', '60']
    expect(await json('tenant:maintenance', id, ...words)).toMatchObject({
      maintenance: { message: 'moving house', retryAfterSeconds: 60 },
    })
    expect(await json('tenant:maintenance', id, '--off')).toMatchObject({ maintenance: null })
  })

  test('tenant:queue:stats counts jobs, and tenant:audit:export prints audit entries', async () => {
    const id = await tenant('audited')
    await json('tenant:suspend', id)
    const counts = { queue: 'tenantry.InstallTenant', tenantId: id, completed: 1 }
    expect(await json('tenant:queue:stats', id)).toMatchObject({ data: [counts] })
    expect((await json('tenant:queue:stats')).data).toContainEqual(expect.objectContaining(counts))
    const { code, stdout } = await tenantry.run('tenant:audit:export', id)
    expect(code).toBe(0)
    const entries = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(entries.map(({ action }) => action)).toContain('tenants.suspend')
    expect(entries.find(({ action }) => action === 'tenants.suspend').actor.type).toBe('cli')
  })

  test('tenant:delete, tenant:restore and tenant:purge print the changed tenants', async () => {
    const id = await tenant('deleted')
    expect(await json('tenant:delete', id, '--yes')).toMatchObject({ status: 'deleted' })
    expect(await json('tenant:restore', id)).toMatchObject({ status: 'active' })
    await json('tenant:delete', id, '--yes')
    expect(await json('tenant:purge', '--dry-run')).toEqual([{ id, purged: false }])
    expect(await json('tenant:purge', id, '--yes')).toEqual([{ id, purged: true }])
    expect(await json('tenant:purge', '--yes')).toEqual([])
  })
})
describe.concurrent('a rejected command', () => {
  test.each<[Ended['code'], string[], RegExp]>([
    [2, ['tenant:lsit'], /unknown command 'tenant:lsit'\n\(Did you mean tenant:list\?\)/],
    [2, ['tenant:list', '--limit', '0'], /--limit <count>.*from 1 to 200/],
    [2, ['tenant:list', '--cursor', 'made-up'], /cursor/],
    [2, ['tenant:show'], /missing required argument 'id'/],
    [3, ['tenant:show', 'initech'], /Tenant "initech" not found/],
    [2, ['tenant:create'], /missing required argument 'name'/],
    [2, ['tenant:create', 'New', '--id', 'Not valid'], /id: /],
    [2, ['tenant:create', 'New', '--metadata', '{'], /--metadata <json>.*must be JSON/],
    [2, ['tenant:create', 'New', '--plan', 'unheard-of'], /plan/],
    [5, ['tenant:create', 'New', '--id', 'globex'], /"globex" is taken/],
    [3, ['tenant:activate', 'initech'], /initech/],
    [2, ['tenant:activate', 'globex', '--wait', 'long'], /--wait <seconds>/],
    [3, ['tenant:suspend', 'initech'], /initech/],
    [2, ['tenant:suspend', 'globex', 'acme'], /too many arguments/],
    [3, ['tenant:delete', 'initech', '--yes'], /initech/],
    [
      2,
      ['tenant:move', 'globex', '--isolation', 'database-pg'],
      /--yes to confirm: Move globex from schema-pg on main to database-pg /,
    ],
    [2, ['tenant:delete', 'globex'], /--yes to confirm: Delete Globex \(globex\)\?/],
    [3, ['tenant:restore', 'initech'], /initech/],
    [5, ['tenant:restore', 'globex'], /active/],
    [3, ['tenant:maintenance', 'initech'], /initech/],
    [2, ['tenant:maintenance', 'globex', '--retry-after', 'soon'], /--retry-after/],
    [2, ['tenant:purge', 'globex', '--yes'], /"globex" is not a deleted tenant/],
    [3, ['tenant:migrate', 'initech'], /initech/],
    [2, ['tenant:migrate:rollback', 'globex'], /--yes/],
    [2, ['tenant:migrate:rollback', '--yes'], /Name the tenants, or give --all/],
    [2, ['tenant:migrate', '--concurrency', '100'], /concurrency/],
    [3, ['tenant:migrate:status', 'initech'], /initech/],
    [2, ['tenant:seed', 'globex', '--file', 'missing.sql'], /File "missing\.sql" not found/],
    [2, ['tenant:seed', 'globex', '--file', 'seed.txt'], /a seed must be a \.sql, \.ts or \.js file/],
    [2, ['tenant:seed', '--file', 'seed.sql'], /Name the tenants, or give --all/],
    [3, ['tenant:migrate:rollback', 'initech', '--yes'], /initech/],
    [2, ['tenant:exec', 'globex'], /--sql or --file/],
    [3, ['tenant:exec', 'initech', '--sql', 'select 1'], /initech/],
    [
      7,
      ['tenant:exec', 'globex', '--sql', "do $$ begin raise sqlstate '53100'; end $$"],
      /cannot store data: disk is full/,
    ],
    [2, ['tenant:exec', 'globex', '--sql', 'selec'], /character 1: syntax error at or near "selec"/],
    [
      2,
      ['tenant:exec', 'globex', '--sql', 'select 1; select * from nowhere'],
      /character 15: relation "nowhere" does not/,
    ],
    [2, ['tenant:exec', 'globex', '--sql', `select 'a'::int`], /invalid input syntax for type integer: "a"/],
    [2, ['tenant:exec', 'globex', '--file', 'missing.sql'], /File "missing\.sql" not found/],
    [2, ['tenant:queue:stats', 'a', 'b'], /too many arguments/],
    [2, ['tenant:audit:export', '--format', 'xml'], /"xml" must be one of/],
    [3, ['tenant:audit:export', 'initech'], /initech/],
    [2, ['backoffice:setup', '--config', 'missing.json'], /missing\.json: file not found/],
    [2, ['openapi', 'too', 'much'], /too many arguments/],
  ])('ends with exit code %i for the arguments %j', async (code, argv, words) => {
    const ended = await tenantry.run(...argv)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(/^error: /)
    expect(ended.stderr).toMatch(words)
  })

  test('reports rejected SQL as a problem with SQLSTATE and position', async () => {
    const { code, stderr } = await tenantry.run('tenant:exec', 'globex', '--sql', 'select 1 from nowhere', '--json')
    expect(code).toBe(2)
    expect(JSON.parse(stderr)).toMatchObject({
      ...{ status: 422, code: 'E_SQL_REJECTED', sqlState: '42P01', position: 15 },
      detail: 'character 15: relation "nowhere" does not exist',
    })
  })

  const raising = (state: string) => `do $$ begin raise exception 'of the SQL' using errcode = '${state}'; end $$`
  test.each([
    ...['40001', '53300', '57P01', 'XX000', '28P01', '08006'].map((state) => [state, raising(state), 'of the SQL']),
    ['57014', `set local statement_timeout = 50; select pg_sleep(60)`, 'canceling statement due to statement timeout'],
    ['2D000', 'commit and chain', 'AND CHAIN would start one without a scope'],
    ['2D000', 'select 1; commit; select 2', 'a statement ended the transaction'],
    ['0A000', 'copy (select 1) to stdout', 'COPY is not available'],
  ])('reports SQLSTATE %s of a session that survives as rejected SQL: %s', async (sqlState, sql, words) => {
    const { code, stderr } = await tenantry.run('tenant:exec', 'globex', '--sql', sql, '--json')
    expect(JSON.parse(stderr)).toMatchObject({
      ...{ status: 422, code: 'E_SQL_REJECTED', sqlState },
      detail: expect.stringContaining(words),
    })
    expect(code).toBe(2)
  })

  test('prints a problem on standard error with --json', async () => {
    const { code, stdout, stderr } = await tenantry.run('tenant:create', 'New', '--id', 'Not valid', '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      type: 'urn:tenantry:problem:E_INVALID_REQUEST',
      status: 400,
      code: 'E_INVALID_REQUEST',
      errors: [{ path: 'id' }],
    })
  })

  test('ends with 7 if the database is unreachable, without its password in the message', async () => {
    const nowhere = 'postgres://tenantry:secret@127.0.0.1:1/tenantry'
    const { code, stderr } = await tenantry.start(['tenant:list'], { env: { DATABASE_URL: nowhere } }).ended
    expect(code).toBe(7)
    expect(stderr).toContain('E_DEPENDENCY_UNAVAILABLE')
    expect(stderr).not.toContain('secret')
  })

  test('ends with 2 if a configured satellite does not exist', async () => {
    const config = join(directory, 'typo.json')
    await writeFile(config, JSON.stringify({ satellites: { auditLog: false } }))
    const { code, stderr } = await tenantry.run('tenant:list', '--config', config)
    expect(code).toBe(2)
    expect(stderr).toContain('satellites: satellite "auditLog" not found')
  })
})
