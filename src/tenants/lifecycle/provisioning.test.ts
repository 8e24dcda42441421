import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { readTenantMigrations, type TenantMigration } from '../isolation/migrations.ts'
import { TenantProvisioned } from '../tenant/events.ts'
import type { TenantRecord } from '../tenant/tenant.ts'

const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: 'create table notes (id int primary key, body text not null)',
  down: 'drop table notes',
}
const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: (db: Kysely<any>) => db.schema.createTable('tags').addColumn('name', 'text').execute(),
  down: (db: Kysely<any>) => db.schema.dropTable('tags').execute(),
}

let opened: TestTenancy<[]>
/** Has no worker; tests open workers as required. */
let host: Tenancy

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
  host = opened.tenancy
})
afterAll(() => opened.end())

/** Runs `work` with a worker with these migrations. */
async function withWorker<T>(
  migrations: readonly TenantMigration[],
  work: (worker: Tenancy, published: Recorded) => Promise<T>,
): Promise<T> {
  const worker = await opened.open({ role: 'worker', migrations })
  try {
    return await work(worker, recorded(worker))
  } finally {
    await worker.stop()
  }
}
/** Installs a tenant with these migrations in this process. */
async function installWith(migrations: readonly TenantMigration[], id: string): Promise<TenantRecord> {
  const { tenants } = await opened.open({ migrations })
  await tenants.create({ id, name: id })
  await tenants.installation.install(id, { isLast: false })
  return tenants.get(id)
}
const tablesOf = async (id: string): Promise<string[] | undefined> => {
  const { rows } = await host.kernel.database.sql(
    `select relname as name from pg_namespace left join pg_class on relnamespace = pg_namespace.oid and relkind = 'r'
     where nspname = $1 order by relname`,
    [`t1_${id}`],
  )
  return rows.length === 0 ? undefined : rows.map(({ name }) => name).filter(Boolean)
}
const migrationsOf = async (id: string): Promise<string[]> => {
  const { rows } = await host.kernel.database.sql(
    'select name from tenantry.migrations where locator = $1 order by name',
    [`t1_${id}`],
  )
  return rows.map(({ name }) => name)
}

describe('an installation', () => {
  test.each<[string, (tenancy: Tenancy) => Promise<never>, string, string?]>([
    [
      'an error',
      () => Promise.reject(new Error('the CRM has no account for acme')),
      'A listener of TenantProvisioned failed: the CRM has no account for acme',
    ],
    [
      'an error of the database',
      ({ kernel }) => kernel.database.sql('select secret from nowhere') as Promise<never>,
      'A listener of TenantProvisioned failed. See the log for the cause.',
    ],
    ['a text', () => Promise.reject('no account'), 'A listener of TenantProvisioned failed: no account'],
    ['undefined', () => Promise.reject(undefined), 'A listener of TenantProvisioned failed: undefined'],
    [
      'an error of an unavailable server',
      () => Promise.reject(Object.assign(new Error('connect ECONNREFUSED 10.1.2.3:5432'), { code: 'ECONNREFUSED' })),
      'A listener of TenantProvisioned failed. See the log for the cause.',
      'E_DEPENDENCY_UNAVAILABLE',
    ],
  ])(
    'reports the listener without internal details when a listener rejects with %s',
    async (_, reject, message, code = 'E_INSTALLATION_FAILED') => {
      const worker = await opened.open({ role: 'api' })
      worker.kernel.events.subscribe(TenantProvisioned, 'within', () => reject(worker))
      const { id } = await worker.tenants.create({ name: 'Acme' })
      await worker.tenants.installation.install(id, { isLast: true })
      expect(await worker.tenants.get(id)).toMatchObject({
        status: 'failed',
        failure: { code, message },
      })
      await worker.stop()
    },
  )

  test('creates the storage, runs SQL and TypeScript migrations, and records them', async () => {
    await withWorker([NOTES, TAGS], async (worker, published) => {
      expect((await installed(worker, { id: 'whole', name: 'Whole' })).status).toBe('active')
      expect(await tablesOf('whole')).toEqual(['notes', 'tags'])
      const { db } = await worker.tenant('whole')
      await db.insertInto('tags').values({ name: 'new' }).execute()
      expect((await published.until('whole', 'TenantMigrated')).slice(2)).toEqual([
        'tenants.install',
        'TenantProvisioned',
        'TenantMigrated',
      ])
      expect(published.events.at(-1)).toMatchObject({ migrations: ['0001_notes', '0002_tags'], direction: 'up' })
    })
  })

  test('leaves no storage after a failed migration, records the code, and succeeds after a fix', async () => {
    const wrong: TenantMigration = { name: '0002_wrong', checksum: 'w', up: `insert into secret_table values ('hush')` }
    await withWorker([NOTES, wrong], async (worker, published) => {
      const failed = await installed(worker, { id: 'unlucky', name: 'Unlucky' })
      expect(failed).toMatchObject({ status: 'failed', activatedAt: null, failure: { code: 'E_MIGRATION_FAILED' } })
      expect(failed.failure?.message).toContain('0002_wrong (up) failed (SQLSTATE 42P01)')
      expect(JSON.stringify(failed)).not.toContain('secret_table')
      expect((await published.until('unlucky', 'TenantProvisioningFailed')).slice(2)).toEqual([
        'tenants.install',
        'TenantProvisioningFailed',
      ])
      expect(published.changes.at(-1)).toMatchObject({ outcome: 'failure', after: { status: 'failed' } })
      expect(published.events.at(-1)).toMatchObject({ code: 'E_MIGRATION_FAILED' })
    })
    expect(await tablesOf('unlucky')).toBeUndefined()
    expect(await migrationsOf('unlucky')).toEqual([])
    await expect(host.tenant('unlucky')).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY', status: 503 })

    const fixed: TenantMigration = { ...TAGS, name: '0002_mended' }
    await withWorker([NOTES, fixed], async ({ tenants }, published) => {
      const { tenant, changed } = await tenants.activate('unlucky')
      expect({ changed, ...tenant }).toMatchObject({ changed: true, status: 'provisioning', failure: null })
      expect(await tenants.waitUntilInstalled('unlucky', AbortSignal.timeout(10_000))).toMatchObject({
        status: 'active',
      })
      expect(await published.until('unlucky', 'TenantMigrated')).toEqual([
        'tenants.activate',
        'tenants.install',
        'TenantProvisioned',
        'TenantMigrated',
      ])
    })
    expect(await tablesOf('unlucky')).toEqual(['notes', 'tags'])
  })

  test.each<[string, TenantMigration['up']]>([
    ['SQL that ends its transaction', 'create table half (); commit; create table other ();'],
    ['a program that throws', () => Promise.reject(new Error('the password is hush'))],
    ['a program that asks for a transaction', (db) => db.transaction().execute(async () => undefined)],
  ])('fails with %s', async (what, up) => {
    const { status, failure } = await installWith(
      [{ name: '0001_odd', checksum: '', up }],
      what.replaceAll(' ', '-').toLowerCase(),
    )
    expect({ status, code: failure?.code }).toEqual({ status: 'failed', code: 'E_MIGRATION_FAILED' })
    expect(failure?.message).not.toContain('hush')
  })

  test('runs each migration in the schema of the tenant, regardless of settings of earlier migrations', async () => {
    const dump: TenantMigration = {
      name: '0001_dump',
      checksum: '',
      up: `select set_config('search_path', '', false); set local role none;`,
    }
    for (const id of ['dumped-1', 'dumped-2']) {
      await installWith([dump, { ...NOTES, name: '0002_notes' }], id)
      expect(await tablesOf(id)).toEqual(['notes'])
    }
  })

  test('runs once for many concurrent requests', async () => {
    await host.kernel.database.sql('create table public.runs (schema text)')
    const counting: TenantMigration = {
      name: '0001_count',
      checksum: '',
      up: (db) => sql`insert into public.runs select current_schema()`.execute(db).then(() => undefined),
    }
    const workers = await Promise.all([1, 2].map(() => opened.open({ role: 'api', migrations: [counting] })))
    const recordings = workers.map(recorded)
    await host.tenants.create({ id: 'popular', name: 'Popular' })
    await Promise.all(
      [...workers, ...workers].map(({ tenants }) => tenants.installation.install('popular', { isLast: false })),
    )
    expect((await host.kernel.database.sql('select * from public.runs')).rows).toEqual([{ schema: 't1_popular' }])
    expect(recordings.flatMap((published) => published.of('popular')).sort()).toEqual([
      'TenantMigrated',
      'TenantProvisioned',
      'tenants.install',
    ])
  })

  test('is cancelled by a deletion and started again by a restore', async () => {
    await host.tenants.create({ id: 'early', name: 'Early' })
    await host.tenants.delete('early')
    await withWorker([NOTES], async (worker) => {
      await installed(worker, { name: 'runs after the installation in the queue' })
      expect((await host.tenants.get('early')).status).toBe('deleted')
      expect(await tablesOf('early')).toBeUndefined()
      expect((await host.tenants.restore('early')).tenant.status).toBe('provisioning')
      expect((await host.tenants.waitUntilInstalled('early', AbortSignal.timeout(10_000))).status).toBe('active')
    })
    expect(await tablesOf('early')).toEqual(['notes'])
  })
})

describe('migrations', () => {
  test('readTenantMigrations reads a folder in the order of the numbers and rejects invalid files', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tenantry-migrations-'))
    const write = (name: string, text: string) => writeFile(join(folder, name), text)
    try {
      await write('10000_last.sql', '-- up\nalter table third rename to last;\n')
      await write('9999_third.sql', '-- UP\ncreate table third ();\n')
      await write('0001_first.sql', '-- Notes.\n-- up\ncreate table first ();\n-- down\ndrop table first;\n')
      await write(
        '0002_second.ts',
        `export const up = async (db: any): Promise<void> => db.schema.createTable('second').execute()`,
      )
      const migrations = await readTenantMigrations(folder)
      expect(migrations.map(({ name }) => name)).toEqual(['0001_first', '0002_second', '9999_third', '10000_last'])
      expect(migrations.map(({ down }) => down)).toEqual(['drop table first;', undefined, undefined, undefined])
      await withWorker(migrations, async (worker) => {
        const { id } = await installed(worker, { name: 'x' })
        expect(await tablesOf(id)).toEqual(['first', 'last', 'second'])
      })
      for (const [name, text, fault] of [
        ['0003-dashed.sql', '-- up\nselect 1', 'must have a name such as 0001_notes.sql'],
        ['00001_again.sql', '-- up\nselect 1', 'have the number 1'],
        ['0004_empty.sql', '-- down\nselect 1', 'must start with the line `-- up`'],
        ['0004_early.sql', 'select 1;\n-- up\nselect 1', 'must start with the line `-- up`'],
        ['0004_none.ts', 'export const down = 1', 'must export a function up(db)'],
      ] as const) {
        await write(name, text)
        await expect(readTenantMigrations(folder)).rejects.toMatchObject({
          code: 'E_CONFIGURATION',
          message: expect.stringContaining(fault),
        })
        await rm(join(folder, name))
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
