/** Every command as a person would run it: the real program, on a database of its own. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../testing/database.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'
import { type Ended, type Program, programWith } from './program.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let directory: string
let database: TestDatabase
let tenantry: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
  database = await createTestDatabase(inject('postgresUrl'))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ migrations: 'migrations', tenants: { retentionDays: 0, autoPurge: false } }))
  await mkdir(join(directory, 'migrations'))
  await writeMigration('0001_notes', 'create table notes (body text)', 'drop table notes')
  tenantry = programWith({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
  })
})

afterAll(async () => {
  await tenantry?.killAll()
  await database?.drop()
  await rm(directory, { recursive: true, force: true })
})

const writeMigration = (name: string, up: string, down: string) =>
  writeFile(join(directory, 'migrations', `${name}.sql`), `-- up\n${up};\n-- down\n${down};\n`)

/** The one JSON value of a command that succeeds and says nothing else. */
async function json(...argv: string[]): Promise<any> {
  const { code, stdout, stderr } = await tenantry.run(...argv, '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

describe('a tenant, from the first command to the last', () => {
  test('backoffice:setup makes what is missing, and nothing the second time', async () => {
    const first = await tenantry.run('backoffice:setup')
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(/^migrated +.*tenants\/0001_tenants/m)
    expect(first.stdout).toMatch(/^logins\.main +tenantry_tenant/m)
    expect(first.stdout).toMatch(/^queues +tenantry\.InstallTenant, /m)
    const second = await tenantry.run('backoffice:setup', '--json')
    expect(second).toMatchObject({ code: 0, stderr: 'nothing was missing\n' })
    expect(JSON.parse(second.stdout)).toMatchObject({ migrated: [], logins: { main: expect.any(String) } })
  })

  test('an empty list is said in words, and is an empty value', async () => {
    expect(await tenantry.run('tenant:list')).toEqual({ code: 0, stdout: '', stderr: 'none\n' })
    expect(await json('tenant:list')).toEqual({ data: [], nextCursor: null })
  })

  test('tenant:create waits until it is active', async () => {
    const metadata = JSON.stringify({ seats: 5 })
    const given = [
      '--id',
      'acme',
      '--metadata',
      metadata,
      '--plan',
      'pro',
      '--domain',
      'a.example',
      '--domain',
      'b.example',
    ]
    expect(await json('tenant:create', ...given, 'Acme 日本')).toMatchObject({
      id: 'acme',
      name: 'Acme 日本',
      status: 'active',
      metadata: { seats: 5, plan: 'pro' },
      domains: ['a.example', 'b.example'],
    })
    await json('tenant:create', 'Globex', '--id', 'globex')
  })

  test('tenant:list and tenant:show', async () => {
    const { stdout, stderr } = await tenantry.run('tenant:list', '--limit', '1')
    expect(stdout.split('\n')[0]).toMatch(/^id +name +status +isolation +placement +createdAt$/)
    expect(stdout.split('\n')[1]).toMatch(/^globex +Globex +active +schema-pg +main +\d{4}-/)
    const [, cursor = ''] = stderr.match(/^more: --cursor (\S+)$/m) ?? []
    expect((await json('tenant:list', '--cursor', cursor)).data).toMatchObject([{ id: 'acme' }])
    expect((await json('tenant:list', '--q', 'glob', '--status', 'active')).data).toMatchObject([{ id: 'globex' }])
    expect((await tenantry.run('tenant:show', 'acme')).stdout).toMatch(/^metadata\.plan +pro$/m)
  })

  test('tenant:exec, from the command line and from a file', async () => {
    await tenantry.run('tenant:exec', 'acme', '--sql', "insert into notes values ('one'), (null)")
    const { stdout } = await tenantry.run('tenant:exec', 'acme', '--sql', 'select body, 7 as seven from notes')
    expect(stdout).toBe('body  seven\none       7\n-         7\n')
    const file = join(directory, 'question.sql')
    await writeFile(file, 'select count(*)::int as notes from notes')
    expect(await json('tenant:exec', 'globex', '--file', file)).toEqual([{ notes: 0 }])
    await writeFile(
      file,
      `insert into notes values ('a;b'); -- two\nselect body from notes; insert into nowhere values (1)`,
    )
    expect((await tenantry.run('tenant:exec', 'globex', '--file', file)).code).toBe(1)
    await writeFile(file, `insert into notes values ('a;b'); -- two\nselect body from notes;`)
    expect(await json('tenant:exec', 'globex', '--file', file)).toEqual([{ body: 'a;b' }])
  })

  test('tenant:migrate and tenant:migrate:rollback', async () => {
    await writeMigration('0002_dates', 'alter table notes add day date', 'alter table notes drop day')
    expect(await json('tenant:migrate', '--dry-run')).toEqual([
      { tenantId: 'acme', migrations: ['0002_dates'], error: null },
      { tenantId: 'globex', migrations: ['0002_dates'], error: null },
    ])
    expect((await tenantry.run('tenant:migrate', 'acme', 'globex')).stdout).toMatch(
      /^id +state +migrations +attempts +error\nacme +done +0002_dates +1 +-\nglobex +done +0002_dates +1 +-\n$/,
    )
    expect(await json('tenant:migrate')).toMatchObject({ runId: null, total: 0, items: [] })
    const { versions } = JSON.parse((await tenantry.run('tenant:migrate:status', '--json')).stdout)
    expect(versions).toMatchObject([{ last: '0002_dates', tenants: 2, pending: [] }])
    expect(await json('tenant:migrate:rollback', 'acme', '--steps', '2', '--yes')).toMatchObject({
      direction: 'down',
      state: 'completed',
      items: [{ tenantId: 'acme', migrations: ['0002_dates', '0001_notes'] }],
    })
    expect(await json('tenant:migrate:status', 'acme', '--verify')).toEqual([
      { migration: '0001_notes', state: 'pending' },
      { migration: '0002_dates', state: 'pending' },
    ])
  })

  test('tenant:migrate that fails says for whom and why, and goes on once it is mended', async () => {
    await writeMigration('0003_wrong', 'select 1 / 0', 'select 1')
    const { code, stdout, stderr } = await tenantry.run('tenant:migrate', 'acme', 'globex', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ state: 'failed', total: 2, failed: 2 })
    expect(stderr).toContain('"code": "E_MIGRATIONS_INCOMPLETE"')
    expect(stderr).toMatch(/"detail": "2 of 2 failed; the first is acme: .*0003_wrong \(up\) failed/)
    expect(stderr).toContain('division by zero') // in the log, for who runs it
    await writeMigration('0003_wrong', 'select 1', 'select 1')
    expect(await json('tenant:migrate', '--concurrency', '1')).toMatchObject({ state: 'completed', done: 2 })
    expect(await json('tenant:migrate:rollback', '--all', '--dry-run')).toMatchObject([
      { tenantId: 'acme', migrations: ['0003_wrong'] },
      { tenantId: 'globex', migrations: ['0003_wrong'] },
    ])
    expect((await tenantry.run('tenant:migrate', '--cancel')).stderr).toBe('there is no unfinished run\n')
    expect(await json('tenant:migrate', '--cancel')).toBeNull()
  })

  test('tenant:seed, from SQL and from a program, all or nothing for each tenant', async () => {
    const file = join(directory, 'seed.sql')
    await writeFile(file, `insert into notes (body) values ('one; two');\ninsert into notes (body) values ('three');`)
    expect(await json('tenant:seed', 'acme', '--file', file)).toEqual([{ id: 'acme', isSeeded: true }])
    const program = join(directory, 'seed.ts')
    await writeFile(
      program,
      `export async function seed(db: any, { id }: { id: string }) {
        await db.insertInto('notes').values({ body: id }).execute()
        if (id === 'globex') throw new Error('not globex')
      }`,
    )
    const { code, stdout } = await tenantry.run('tenant:seed', '--all', '--file', program, '--json')
    expect({ code, results: JSON.parse(stdout) }).toEqual({
      code: 1,
      results: expect.arrayContaining([
        { id: 'acme', isSeeded: true },
        { id: 'globex', isSeeded: false, error: 'not globex' },
      ]),
    })
    const bodies = async (id: string) =>
      (await json('tenant:exec', id, '--sql', 'select body from notes')).map(({ body }: any) => body)
    expect(await bodies('acme')).toEqual(['one; two', 'three', 'acme'])
    expect(await bodies('globex')).not.toContain('globex')
  })

  test('tenant:suspend, tenant:activate and tenant:maintenance', async () => {
    expect(await json('tenant:suspend', 'acme')).toMatchObject({ status: 'suspended' })
    expect(await json('tenant:activate', 'acme')).toMatchObject({ status: 'active' })
    const words = ['--message', 'moving house', '--retry-after', '60']
    expect(await json('tenant:maintenance', 'acme', ...words)).toMatchObject({
      maintenance: { message: 'moving house', retryAfterSeconds: 60 },
    })
    expect(await json('tenant:maintenance', 'acme', '--off')).toMatchObject({ maintenance: null })
  })

  test('tenant:queue:stats and tenant:audit:export', async () => {
    expect(await json('tenant:queue:stats', 'acme')).toMatchObject([{ queue: 'tenantry.InstallTenant', completed: 1 }])
    const { code, stdout } = await tenantry.run('tenant:audit:export', 'acme')
    expect(code).toBe(0)
    const entries = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(entries.map(({ action }) => action)).toContain('tenants.suspend')
    expect(entries.find(({ action }) => action === 'tenants.suspend').actor.type).toBe('cli')
  })

  test('tenant:delete, tenant:restore and tenant:purge', async () => {
    expect(await json('tenant:delete', 'acme', '--yes')).toMatchObject({ status: 'deleted' })
    expect(await json('tenant:restore', 'acme')).toMatchObject({ status: 'active' })
    await json('tenant:delete', 'acme', '--yes')
    expect(await json('tenant:purge', '--dry-run')).toEqual([{ id: 'acme', purged: false }])
    expect(await json('tenant:purge', 'acme', '--yes')).toEqual([{ id: 'acme', purged: true }])
    expect(await json('tenant:purge', '--yes')).toEqual([])
  })
})

describe.concurrent('what is refused', () => {
  test.each<[Ended['code'], string[], RegExp]>([
    [2, ['tenant:lsit'], /unknown command 'tenant:lsit'\n\(Did you mean tenant:list\?\)/],
    [2, ['tenant:list', '--limit', '0'], /--limit <count>.*above 0/],
    [2, ['tenant:list', '--cursor', 'made-up'], /cursor/],
    [2, ['tenant:show'], /missing required argument 'id'/],
    [3, ['tenant:show', 'nobody'], /There is no tenant "nobody"/],
    [2, ['tenant:create'], /missing required argument 'name'/],
    [2, ['tenant:create', 'New', '--id', 'Not valid'], /id: /],
    [2, ['tenant:create', 'New', '--metadata', '{'], /--metadata <json>.*not JSON/],
    [2, ['tenant:create', 'New', '--plan', 'unheard-of'], /plan/],
    [5, ['tenant:create', 'New', '--id', 'globex'], /"globex" is taken/],
    [3, ['tenant:activate', 'nobody'], /nobody/],
    [2, ['tenant:activate', 'globex', '--wait', 'long'], /--wait <seconds>/],
    [3, ['tenant:suspend', 'nobody'], /nobody/],
    [2, ['tenant:suspend', 'globex', 'acme'], /too many arguments/],
    [3, ['tenant:delete', 'nobody', '--yes'], /nobody/],
    [
      2,
      ['tenant:move', 'globex', '--isolation', 'database-pg'],
      /Move globex from schema-pg on main to database-pg .*--yes/,
    ],
    [2, ['tenant:delete', 'globex'], /Delete Globex \(globex\)\?.*--yes/],
    [3, ['tenant:restore', 'nobody'], /nobody/],
    [5, ['tenant:restore', 'globex'], /active/],
    [3, ['tenant:maintenance', 'nobody'], /nobody/],
    [2, ['tenant:maintenance', 'globex', '--retry-after', 'soon'], /--retry-after/],
    [2, ['tenant:purge', 'globex', '--yes'], /"globex" is not a deleted tenant/],
    [3, ['tenant:migrate', 'nobody'], /nobody/],
    [2, ['tenant:migrate:rollback', 'globex'], /--yes/],
    [2, ['tenant:migrate:rollback', '--yes'], /name the tenants, or give --all/],
    [2, ['tenant:migrate', '--concurrency', '100'], /concurrency/],
    [3, ['tenant:migrate:status', 'nobody'], /nobody/],
    [2, ['tenant:seed', 'globex', '--file', 'missing.sql'], /missing\.sql: there is no such file/],
    [2, ['tenant:seed', 'globex', '--file', 'seed.txt'], /a seed is a \.sql, \.ts or \.js file/],
    [2, ['tenant:seed', '--file', 'seed.sql'], /name the tenants, or give --all/],
    [3, ['tenant:migrate:rollback', 'nobody', '--yes'], /nobody/],
    [2, ['tenant:exec', 'globex'], /--sql or --file/],
    [3, ['tenant:exec', 'nobody', '--sql', 'select 1'], /nobody/],
    [1, ['tenant:exec', 'globex', '--sql', 'selec'], /syntax error at or near "selec"/],
    [2, ['tenant:queue:stats', 'a', 'b'], /too many arguments/],
    [2, ['tenant:audit:export', '--format', 'xml'], /"xml" is not one of/],
    [3, ['tenant:audit:export', 'nobody'], /nobody/],
    [2, ['backoffice:setup', '--config', 'missing.json'], /missing\.json: there is no such file/],
    [2, ['openapi', 'too', 'much'], /too many arguments/],
  ])('exit code %i: %j', async (code, argv, words) => {
    const ended = await tenantry.run(...argv)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(/^error: /)
    expect(ended.stderr).toMatch(words)
  })

  test('with --json it is a problem, on standard error', async () => {
    const { code, stdout, stderr } = await tenantry.run('tenant:create', 'New', '--id', 'Not valid', '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      type: 'urn:tenantry:problem:E_INVALID_REQUEST',
      status: 400,
      code: 'E_INVALID_REQUEST',
      errors: [{ path: 'id' }],
    })
  })

  test('a database that nobody serves is a missing dependency', async () => {
    const nowhere = 'postgres://tenantry:secret@127.0.0.1:1/tenantry'
    const { code, stderr } = await tenantry.start(['tenant:list'], { env: { DATABASE_URL: nowhere } }).ended
    expect(code).toBe(7)
    expect(stderr).toContain('E_DEPENDENCY_UNAVAILABLE')
    expect(stderr).not.toContain('secret')
  })

  test('a satellite that does not exist', async () => {
    const config = join(directory, 'typo.json')
    await writeFile(config, JSON.stringify({ satellites: { auditLog: false } }))
    const { code, stderr } = await tenantry.run('tenant:list', '--config', config)
    expect(code).toBe(2)
    expect(stderr).toContain('satellites: there is no satellite "auditLog"')
  })
})
