/** Every command by its arguments, standard output, standard error and exit code. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../testing/database.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'
import { createProgramDatabase, type Ended, type InProcess, inProcess } from './in-process.fixture.ts'

interface Program {
  readonly tenantry: InProcess
  /** Its configuration is here. */
  readonly directory: string
  /** The one JSON value of a command that succeeds and says nothing else. */
  json(...argv: string[]): Promise<any>
  writeMigration(name: string, up: string, down: string): Promise<void>
}

const opened: (() => Promise<void>)[] = []
afterAll(() => Promise.all(opened.map((end) => end())))

/** The program on its own database, with one migration. */
async function openProgram(database: Promise<TestDatabase> = createProgramDatabase(inject('postgresUrl'))) {
  const { url } = await database
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ migrations: 'migrations', tenants: { retentionDays: 0, autoPurge: false } }))
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
      await tenantry.close() // a tenancy reads them when it opens
    },
  }
  await program.writeMigration('0001_notes', 'create table notes (body text)', 'drop table notes')
  return program
}

let tenantry: InProcess
let directory: string
let json: Program['json']
beforeAll(async () => {
  ;({ tenantry, directory, json } = await openProgram())
  await json('tenant:create', 'Globex', '--id', 'globex')
})

/** Active. */
async function tenant(id: string, name = id): Promise<string> {
  await json('tenant:create', name, '--id', id)
  return id
}

test('backoffice:setup makes what is missing, and nothing the second time', async () => {
  const { tenantry } = await openProgram(createTestDatabase(inject('postgresUrl')))
  const first = await tenantry.run('backoffice:setup')
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(first.stdout).toMatch(/^migrated +.*tenants\/0001_tenants/m)
  expect(first.stdout).toMatch(/^logins\.main +tenantry_tenant/m)
  expect(first.stdout).toMatch(/^queues +tenantry\.InstallTenant, /m)
  const second = await tenantry.start(['backoffice:setup', '--json'], { isAlone: true }).ended
  expect(second).toMatchObject({ code: 0, stderr: 'nothing was missing\n' })
  expect(JSON.parse(second.stdout)).toMatchObject({ migrated: [], logins: { main: expect.any(String) } })
})

describe('a tenant', () => {
  test('an empty list is said in words, and is an empty value', async () => {
    const none = ['tenant:list', '--q', 'nothing is named like this']
    expect(await tenantry.run(...none)).toEqual({ code: 0, stdout: '', stderr: 'none\n' })
    expect(await json(...none)).toEqual({ data: [], nextCursor: null })
  })

  test('tenant:create waits until it is active', async () => {
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

  test('tenant:list and tenant:show', async () => {
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

  test('tenant:exec, from the command line and from a file', async () => {
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
    expect((await tenantry.run('tenant:exec', other, '--file', file)).code).toBe(1)
    await writeFile(file, `insert into notes values ('a;b'); -- two\nselect body from notes;`)
    expect(await json('tenant:exec', other, '--file', file)).toEqual([{ body: 'a;b' }])
  })

  test('tenant:seed, from SQL and from a program, all or nothing for each tenant', async () => {
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
        { id: failing, isSeeded: false, error: 'not this one' },
      ]),
    })
    const bodies = async (id: string) =>
      (await json('tenant:exec', id, '--sql', 'select body from notes')).map(({ body }: any) => body)
    expect(await bodies(one)).toEqual(['one; two', 'three', one])
    expect(await bodies(failing)).not.toContain(failing)
  })

  test('tenant:suspend, tenant:activate and tenant:maintenance', async () => {
    const id = await tenant('suspended')
    expect(await json('tenant:suspend', id)).toMatchObject({ status: 'suspended' })
    expect(await json('tenant:activate', id)).toMatchObject({ status: 'active' })
    const words = ['--message', 'moving house', '--retry-after', '60']
    expect(await json('tenant:maintenance', id, ...words)).toMatchObject({
      maintenance: { message: 'moving house', retryAfterSeconds: 60 },
    })
    expect(await json('tenant:maintenance', id, '--off')).toMatchObject({ maintenance: null })
  })

  test('tenant:queue:stats and tenant:audit:export', async () => {
    const id = await tenant('audited')
    await json('tenant:suspend', id)
    expect(await json('tenant:queue:stats', id)).toMatchObject([{ queue: 'tenantry.InstallTenant', completed: 1 }])
    const { code, stdout } = await tenantry.run('tenant:audit:export', id)
    expect(code).toBe(0)
    const entries = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(entries.map(({ action }) => action)).toContain('tenants.suspend')
    expect(entries.find(({ action }) => action === 'tenants.suspend').actor.type).toBe('cli')
  })

  test('tenant:delete, tenant:restore and tenant:purge', async () => {
    const id = await tenant('deleted')
    expect(await json('tenant:delete', id, '--yes')).toMatchObject({ status: 'deleted' })
    expect(await json('tenant:restore', id)).toMatchObject({ status: 'active' })
    await json('tenant:delete', id, '--yes')
    expect(await json('tenant:purge', '--dry-run')).toEqual([{ id, purged: false }])
    expect(await json('tenant:purge', id, '--yes')).toEqual([{ id, purged: true }])
    expect(await json('tenant:purge', '--yes')).toEqual([])
  })
})

describe('migrations', () => {
  /** Two tenants, with the first migration. */
  async function openMigrated(): Promise<Program> {
    const program = await openProgram()
    for (const id of ['acme', 'globex']) await program.json('tenant:create', id, '--id', id)
    return program
  }

  test('tenant:migrate and tenant:migrate:rollback', async () => {
    const { tenantry, json, writeMigration } = await openMigrated()
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
    const { tenantry, json, writeMigration } = await openMigrated()
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
