/** Tests commands beside an application with other settings, and the two forms of one definition. */
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { directory as archivesIn } from '../drivers/archives/directory.ts'
import { databasePg } from '../drivers/isolation/database-pg.ts'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { postgresStore } from '../drivers/store/postgres.ts'
import { createLogger } from '../kernel/base/logger.ts'
import { lockMigrations } from '../kernel/database/migrations.ts'
import { type Config, createTenancy, defineTenancy } from '../service/definition.ts'
import { partsOf } from '../tenancy/parts.ts'
import { eventually, installed, TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { inProcess } from './in-process.fixture.ts'
import { allCommands } from './program.ts'
import { useInstallation } from './program-database.fixture.ts'

const logger = createLogger({ level: 'silent' })
const MIGRATION = '-- up\ncreate table notes (id int);'

const installation = useInstallation('test')
beforeEach(async () => {
  await mkdir(join(installation.directory, 'migrations'))
  await installation.fileWith('migrations/0001_notes.sql', MIGRATION)
})

const run = (...argv: string[]) => inProcess(installation.env).start(argv, { isAlone: true, stdin: '' }).ended
const started = async (config: Config) => {
  const tenancy = await createTenancy({
    database: { url: installation.database.url },
    appKey: TEST_APP_KEY,
    migrations: join(installation.directory, 'migrations'),
    logger,
    ...config,
  })
  onTestFinished(() => tenancy.stop())
  return tenancy
}
const fileWith = (content: object) => installation.fileWith('tenantry.config.json', content)

test('a command with other drivers, satellites and backups than the application exits with 2 and creates nothing', async () => {
  const { kernel, tenants } = await started({
    isolation: [schemaPg()],
    backups: { directory: join(installation.directory, 'app') },
  })
  const app = await fileWith({ isolation: ['schema-pg', 'rowscope-pg'], backups: { directory: './other' } })
  const tables = async () =>
    (await kernel.database.sql(`select tablename from pg_tables where schemaname = 'multitenancy' order by 1`)).rows
  const before = await tables()

  const refused = await run('tenant:create', 'Acme', '--id', 'acme', '--app', app)
  expect(refused).toMatchObject({ code: 2, stdout: '' })
  expect(refused.stderr).toMatch(/isolation\.drivers\.rowscope-pg: \{"scope":"batch"\} here, absent there/)
  expect(refused.stderr).toMatch(/backups\.storage: directory \S+other here, directory \S+app there/)
  expect(refused.stderr).toMatch(/satellites\.webhooks: \S+ here, absent there/)
  expect(refused.stderr).toMatch(/migrations\.0001_notes: absent here/)
  expect(refused.stderr).toContain('E_SETTINGS_CONFLICT')
  expect(await tables()).toEqual(before)
  expect((await tenants.list({ limit: 1 })).data).toEqual([])
  expect(await readdir(installation.directory)).not.toContain('other')

  expect(await run('tenant:list', '--app', app)).toMatchObject({ code: 0 })
  expect(await tables()).toEqual(before)
  const allowed = ['tenant:create', 'Acme', '--id', 'acme', '--allow-different-settings', '--app', app]
  expect(await run(...allowed)).toMatchObject({ code: 0 })
  expect((await tables()).length).toBeGreaterThan(before.length)
})

test('a service starts beside an open command with conflicting settings, and its migrations run', async () => {
  const isolation = ['schema-pg']
  const app = await fileWith({ isolation, migrations: './migrations', satellites: {} })
  const open = inProcess(installation.env).start(['doctor', '--watch', '1', '--app', app], { isAlone: true })
  await open.says(/no findings/)
  await installation.fileWith('migrations/0001_notes.sql', `${MIGRATION} create table other (id int);`)
  const { kernel } = await started({ isolation: [schemaPg()] })
  const live = (await kernel.processes.list()).map(({ role, isThis, differences }) => [
    role,
    isThis,
    differences.some(({ isConflict }) => isConflict),
  ])
  expect(live).toEqual([
    ['command', false, true],
    ['all', true, false],
  ])
  await open.interrupt()
  await installation.fileWith('migrations/0001_notes.sql', MIGRATION)
  const refused = await run('tenant:create', 'Acme', '--id', 'acme', '--app', app)
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('running all process') })
  expect(refused.stderr).not.toContain('--allow-different-settings')
  expect(refused.stderr).toContain('Name the definition of that process with --app and use its environment')
})

test('a command that waits for the migrations of another process ends on Ctrl-C', async () => {
  const { kernel } = await started({ isolation: [schemaPg()] })
  const app = await fileWith({ isolation: ['schema-pg'], migrations: './migrations', satellites: {} })
  await kernel.database.session(async (client) => {
    await lockMigrations(client)
    const command = inProcess(installation.env).start(['tenant:list', '--app', app], { isAlone: true })
    const isWaiting = `select from pg_stat_activity where datname = current_database() and query like 'select pg_try_advisory_lock%'
      and pid <> pg_backend_pid()`
    await eventually(async () => expect((await client.query(isWaiting)).rowCount).toBe(1))
    expect(await command.interrupt()).toMatchObject({ code: 130, stdout: '' })
  })
})

test('backoffice:setup runs pending migrations beside a service with other settings', async () => {
  await started({ isolation: [schemaPg()] })
  const app = await fileWith({ isolation: ['schema-pg'] })
  const { code, stdout } = await run('backoffice:setup', '--json', '--app', app)
  expect({ code, migrated: JSON.parse(stdout).migrated }).toEqual({
    code: 0,
    migrated: expect.arrayContaining([expect.stringMatching(/^webhooks\/0001/)]),
  })
})

test('a process without the driver of a tenant does not start', async () => {
  const first = await started({ isolation: [schemaPg(), databasePg()] })
  await installed(first, { id: 'acme', name: 'Acme', isolation: 'database-pg' })
  await first.stop()
  await expect(started({ isolation: [schemaPg()] })).rejects.toThrow(
    'The isolation driver "database-pg" of tenant "acme" is not configured here.',
  )
  const app = await fileWith({ isolation: ['schema-pg'] })
  expect(await run('tenant:list', '--app', app)).toMatchObject({ code: 2, stdout: '' })
})

test('a rolling deployment of a migration starts with a warning, and a changed migration does not start', async () => {
  await started({ isolation: [schemaPg()] })
  await installation.fileWith('migrations/0002_more.sql', '-- up\ncreate table more (id int);')
  const lines: string[] = []
  const next = await started({
    isolation: [schemaPg()],
    logger: createLogger({ level: 'warn', write: (line) => void lines.push(line) }),
  })
  expect(lines.join('')).toContain('migrations.0002_more')
  const isolation = ['schema-pg']
  const app = await fileWith({ isolation, migrations: './migrations', satellites: {} })
  const migrate = await run('tenant:migrate', '--app', app)
  expect(migrate.code).toBe(2) // other satellites and backups
  expect(migrate.stderr).not.toContain('0002_more')
  const report = await next.doctor.examine({})
  expect(report.checks.filter(({ code }) => code === 'processes.settings')).toEqual([])
  await next.stop()
  await installation.fileWith('migrations/0001_notes.sql', `${MIGRATION} create table other (id int);`)
  await expect(started({ isolation: [schemaPg()] })).rejects.toMatchObject({ code: 'E_SETTINGS_CONFLICT' })
})

test('JSON and TypeScript form of one definition give equal settings', async () => {
  const shared = {
    migrations: './migrations',
    plans: { defaultPlan: 'free', definitions: { pro: { limits: { b: 2, a: 1 } }, free: { limits: {} } } },
    satellites: { sso: false },
  }
  const typed = await defineTenancy({
    ...shared,
    database: { url: installation.database.url },
    appKey: TEST_APP_KEY,
    logger,
    isolation: [schemaPg({ names: 'qualified' }), databasePg({ template: 'base' })],
    backups: { archives: archivesIn({ path: join(installation.directory, 'backups') }) },
    migrations: join(installation.directory, 'migrations'),
  }).start({ role: 'api' })
  onTestFinished(() => typed.stop())
  const app = await fileWith({
    ...shared,
    plans: { definitions: { free: { limits: {} }, pro: { limits: { a: 1, b: 2 } } }, defaultPlan: 'free' },
    isolation: [
      { driver: 'schema-pg', names: 'qualified', scope: 'batch' },
      { driver: 'database-pg', template: 'base' },
    ],
    backups: { archives: { driver: 'directory', path: './backups' } },
  })
  const listed = await run('processes', '--json', '--app', app)
  expect(listed).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(listed.stdout).data).toMatchObject([
    { role: 'api', isLive: true, isThis: false, differences: [] },
    { role: 'command', isLive: true, isThis: true, differences: [] },
  ])
  expect(await run('tenant:create', 'Acme', '--id', 'acme', '--app', app)).toMatchObject({ code: 0, stderr: '' })
})

test('a short definition and its JSON form, which names satellites and backups, give equal settings', async () => {
  const migrations = './migrations'
  const { directory, database } = installation
  const definition = { isolation: ['schema-pg' as const], migrations: join(directory, migrations) }
  await started({ ...definition, database: { url: database.url } })
  const app = await fileWith({ isolation: ['schema-pg'], migrations, satellites: [], backups: false })
  expect(await run('tenant:create', 'Acme', '--id', 'acme', '--app', app)).toMatchObject({ code: 0, stderr: '' })
  const other = await fileWith({ isolation: ['schema-pg'], migrations })
  const { stdout } = await run('processes', '--json', '--app', other)
  const [{ differences }] = JSON.parse(stdout).data as [{ differences: { setting: string }[] }]
  const groups = new Set(differences.map(({ setting }) => setting.split('.')[0]))
  expect([...groups]).toEqual(['backups', 'satellites'])
})

test('a command that reads tables which a service with other settings has not created exits with 2', async () => {
  const { kernel } = await started({ isolation: [schemaPg()] })
  const app = await fileWith({ isolation: ['schema-pg'] })
  expect(await run('tenant:audit:list', '--app', app)).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('The backoffice lacks tables of "auditLogs"'),
  })
  expect(await run('processes', '--app', app)).toMatchObject({ code: 0 })
  expect((await kernel.processes.list()).map(({ isThis }) => isThis)).toEqual([true])
})

test('doctor --fix beside a service with other settings exits with 2, unless they are allowed', async () => {
  const { kernel } = await started({ isolation: [schemaPg()] })
  const app = await fileWith({ isolation: ['schema-pg'] })
  const fix = (...options: string[]) => run('doctor', '--check', 'plans', '--fix', '--yes', ...options, '--app', app)
  const refused = await fix()
  expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('E_SETTINGS_CONFLICT') })
  expect(await fix('--dry-run')).toMatchObject({ code: 0 })
  expect(await fix('--allow-different-settings')).toMatchObject({ code: 0 })
  expect((await kernel.processes.list()).map(({ isThis }) => isThis)).toEqual([true])
})

test('another application key than that of a live process is a conflict of settings, and a wrong key without one', async () => {
  const appKey = Buffer.alloc(32, 9).toString('base64')
  const first = await started({ isolation: [schemaPg()] })
  const conflict = {
    code: 'E_SETTINGS_CONFLICT',
    message: expect.stringMatching(/\n {2}appKey: \w+ here, \w+ there\n/),
  }
  await expect(started({ isolation: [schemaPg()], appKey })).rejects.toMatchObject(conflict)
  const app = await fileWith({ isolation: ['schema-pg'], migrations: './migrations', satellites: [] })
  const listed = () =>
    inProcess({ ...installation.env, TENANTRY_APP_KEY: appKey }).start(['tenant:list', '--app', app], {
      isAlone: true,
      stdin: '',
    }).ended
  expect(await listed()).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('E_SETTINGS_CONFLICT') })
  await first.stop()
  const wrong = { code: 'E_CONFIGURATION', message: expect.stringContaining('do not decrypt the secrets') }
  await expect(started({ isolation: [schemaPg()], appKey })).rejects.toMatchObject(wrong)
  expect(await listed()).toMatchObject({ code: 2, stderr: expect.stringContaining('does not decrypt the secrets') })
})

test('tenant:adopt with other drivers and without the migrations of the application exits with 2 and creates no tenant', async () => {
  const { kernel, tenants } = await started({ isolation: [schemaPg(), databasePg()] })
  await kernel.database.sql('create schema legacy create table notes (id int primary key)')
  const app = await fileWith({ isolation: ['schema-pg', 'rowscope-pg'], satellites: [] })
  const adopt = ['tenant:adopt', 'legacy', '--schema', 'legacy', '--isolation', 'schema-pg', '--yes', '--app', app]
  const refused = await run(...adopt)
  expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('E_SETTINGS_CONFLICT') })
  expect((await tenants.list({ limit: 1 })).data).toEqual([])
  expect(await run(...adopt, '--allow-different-settings')).toMatchObject({ code: 0 })
})

test('commands that change the storage of tenants, and doctor, have --allow-different-settings', () => {
  const having = allCommands().filter(({ options = [] }) =>
    options.some(({ flags }) => flags === '--allow-different-settings'),
  )
  expect(having.map(({ name }) => name).toSorted()).toEqual([
    'doctor',
    'tenant:activate',
    'tenant:adopt',
    'tenant:adopt:tables',
    'tenant:backup',
    'tenant:backup:adopt',
    'tenant:backup:delete',
    'tenant:backup:restore',
    'tenant:backup:run',
    'tenant:bulk',
    'tenant:clone',
    'tenant:create',
    'tenant:import',
    'tenant:migrate',
    'tenant:migrate:rollback',
    'tenant:migrate:start',
    'tenant:move',
    'tenant:purge',
    'tenant:release',
    'tenant:release:tables',
    'tenant:restore',
  ])
})

/** Parts without storage of tenants. */
const WITHOUT_STORAGE: readonly string[] = ['processes', 'tokens', 'sessions', 'activity', 'outbox']

test('each changing operation and each command without an operation declares whether it changes the storage of tenants', () => {
  const parts = partsOf(postgresStore(), []).filter(({ name }) => !WITHOUT_STORAGE.includes(name))
  const operations = parts.flatMap(({ operations = [] }) => operations).filter(({ method }) => method !== 'GET')
  const commands = parts.flatMap(({ commands = [] }) => commands).filter((command) => !('runWith' in command))
  const silent = [...operations, ...commands].filter(({ changesStorage }) => changesStorage === undefined)
  expect(operations.length).toBeGreaterThan(25)
  expect(commands.length).toBeGreaterThan(10)
  expect(silent.map(({ name }) => name)).toEqual([])
})
