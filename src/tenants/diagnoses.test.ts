/** What the doctor says of tenants, on a real tenancy in which exactly that is wrong. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'
import type { Tenancy, TenancyConfig } from '../tenancy.ts'
import { fakeClock } from '../testing/clock.ts'
import { createTestDatabase } from '../testing/database.ts'
import { type TestTenancy, testTenancy } from '../testing/tenancy.ts'

const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (owner text)', down: 'drop table notes' }
const STARS = { name: '0002_stars', checksum: '2', up: 'alter table notes add stars int' }
const BROKEN = {
  ...STARS,
  up: `do $$ begin if current_schema() like '%broken%' then raise exception 'no'; end if; end $$`,
}

const clock = fakeClock()
let shared: TestTenancy<[]>
let tenancy: Tenancy
const ends: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  shared = await testTenancy(inject('postgresUrl'), { role: 'api', clock, migrations: [NOTES] })
  tenancy = shared.tenancy
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await reset()
})
afterAll(() => shared.end())

const sql = async (text: string, values: unknown[] = []) => (await tenancy.kernel.database.sql(text, values)).rows
/** Another tenancy on the same database, until the end of the test. */
async function open(options: Partial<TenancyConfig<[]>>): Promise<Tenancy> {
  const other = await shared.open(options)
  ends.push(() => other.stop())
  return other
}
/** No tenant, no storage, no run of migrations. */
async function reset(): Promise<void> {
  await sql(`
    do $$ declare one text; begin
      for one in select quote_ident(nspname) from pg_namespace where nspname like 't1_%' loop
        execute 'drop schema ' || one || ' cascade';
      end loop;
      truncate multitenancy.tenants, multitenancy.migration_runs cascade;
      if to_regclass('tenantry.migrations') is not null then truncate tenantry.migrations; end if;
    end $$`)
}
const checks = async ({ doctor }: Pick<Tenancy, 'doctor'>) => (await doctor.examine()).checks
const make = async ({ tenants }: Tenancy, id: string, more: object = {}) => {
  await tenants.create({ id, name: id, ...more })
  await tenants.installation.install(id, { isLast: true })
}
const SHARED = `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`

describe('a tenancy with several drivers', () => {
  let several: TestTenancy<[]>
  beforeAll(async () => {
    several = await testTenancy(inject('postgresUrl'), {
      role: 'api',
      isolation: [schemaPg(), rowscopePg(), databasePg()],
      migrations: [{ ...NOTES, up: SHARED }],
    })
  })
  afterAll(() => several.end())

  test('has no findings where nothing is wrong, whatever the state of its tenants', async () => {
    const { tenancy } = several
    expect(await tenancy.doctor.examine()).toEqual({ status: 'ok', checks: [] })
    for (const isolation of ['schema-pg', 'rowscope-pg', 'database-pg']) {
      const id = isolation.slice(0, 3)
      await make(tenancy, `${id}-active`, { isolation })
      await make(tenancy, `${id}-suspended`, { isolation })
      await tenancy.tenants.suspend(`${id}-suspended`)
      if (isolation === 'database-pg') continue // a database costs more, and is closed as for a suspended tenant
      await make(tenancy, `${id}-deleted`, { isolation })
      await tenancy.tenants.delete(`${id}-deleted`)
    }
    expect(await tenancy.doctor.examine()).toEqual({ status: 'ok', checks: [] })
    const proven = await tenancy.doctor.examine({ prove: true })
    expect(proven.status).toBe('ok')
    expect(proven.checks).toMatchObject([{ severity: 'info', code: 'isolation.public-temporary', name: 'isolation' }])
  })

  test('proves its isolation only on request, and reports a finding of several drivers once', async () => {
    const { doctor, kernel } = several.tenancy
    const { rows } = await kernel.database.sql('select login from multitenancy.placement_logins')
    await kernel.database.sql(`alter role ${rows[0].login} createdb`)
    try {
      expect(await checks({ doctor })).toEqual([])
      expect(await doctor.examine({ prove: true })).toMatchObject({
        status: 'error',
        checks: [{ code: 'isolation.login-creates-databases' }, { code: 'isolation.public-temporary' }],
      })
    } finally {
      await kernel.database.sql(`alter role ${rows[0].login} nocreatedb`)
    }
  })
})

describe('installations', () => {
  test('that failed', async () => {
    const failing = await open({ migrations: [NOTES, BROKEN] })
    await make(failing, 'broken')
    expect(await checks(failing)).toMatchObject([
      {
        name: 'tenants',
        severity: 'warn',
        code: 'tenants.failed',
        message: expect.stringMatching(/^"broken" was not installed: The migration 0002_stars \(up\) failed/),
        remedy: expect.stringContaining('tenantry tenant:activate broken'),
        tenantId: 'broken',
      },
    ])
  })

  test('and purges that do not come to an end', async () => {
    const since = `since ${clock.now().toISOString()}`
    await tenancy.tenants.create({ id: 'waiting', name: 'Waiting' })
    await tenancy.tenants.create({ id: 'going', name: 'Going' })
    await tenancy.tenants.installation.install('going', { isLast: true })
    await tenancy.tenants.delete('going')
    await sql(`update multitenancy.tenants set purge_started_at = $1 where id = 'going'`, [clock.now()])
    clock.advance(10 * 60_000)
    expect(await checks(tenancy)).toEqual([])
    clock.advance(1)
    expect(await checks(tenancy)).toMatchObject([
      {
        code: 'tenants.purge-stuck',
        severity: 'warn',
        tenantId: 'going',
        message: `the purge of "going" has not ended ${since}`,
      },
      {
        code: 'tenants.provisioning-stuck',
        severity: 'warn',
        tenantId: 'waiting',
        message: expect.stringContaining(since),
      },
    ])
  })
})

test('tenants whose driver or placement is not configured', async () => {
  const { url } = shared
  const both = await open({ isolation: [schemaPg(), rowscopePg()], placements: { second: { url } }, migrations: [] })
  await make(both, 'rows', { isolation: 'rowscope-pg' })
  await make(both, 'elsewhere', { placement: 'second' })
  const found = (await checks(tenancy)).filter(({ name }) => name === 'directory')
  expect(found).toMatchObject([
    {
      severity: 'error',
      code: 'directory.driver-missing',
      message: '1 tenant cannot be served: the isolation driver "rowscope-pg" is not configured',
    },
    {
      severity: 'error',
      code: 'directory.placement-missing',
      message: '1 tenant cannot be served: the placement "second" is not configured',
    },
  ])
})

test('plans that are not defined', async () => {
  const definitions = { free: { limits: {} }, old: { limits: {} } }
  const before = await open({ plans: { defaultPlan: 'free', definitions } })
  await make(before, 'acme', { metadata: { plan: 'old' } })
  await make(before, 'globex', { metadata: { plan: 'free' } })
  const later = await open({ plans: { defaultPlan: 'free', definitions: { free: { limits: {} } } } })
  expect(await checks(later)).toMatchObject([
    {
      severity: 'warn',
      code: 'plans.undefined',
      message: '1 tenant with the plan "old", which is not defined, count as "free"',
    },
  ])
  const ofHost = await open({
    plans: { defaultPlan: 'free', definitions: { free: { limits: {} } }, getPlan: () => 'free' },
  })
  expect(await checks(ofHost)).toEqual([])
})

describe('circuits that are open', () => {
  /** Circuits are shared by the tenancies of a database: each test has its own. */
  const openOwn = async (isolation: TenancyConfig['isolation']) => {
    const made = await testTenancy(inject('postgresUrl'), { role: 'api', isolation })
    ends.push(made.end)
    return made
  }
  const log = createLogger({ level: 'silent' })
  const failTenTimes = async ({ tenants }: Tenancy, isolation: string, url: string) => {
    const dead = new Database({ url }, log)
    const place = { tenantId: 'acme', placement: 'main', isolation }
    for (let n = 0; n < 10; n++) await tenants.circuits.run(place, () => dead.sql('select 1')).catch(() => undefined)
    await dead.close()
  }

  test('of a server, whose tenants are not told one by one', async () => {
    const { tenancy } = await openOwn([schemaPg()])
    await failTenTimes(tenancy, 'schema-pg', 'postgres://nobody@127.0.0.1:1/nothing')
    expect(await checks(tenancy)).toMatchObject([
      {
        severity: 'error',
        code: 'circuits.server-open',
        message: 'the server of the placement "main" does not answer, and is not called for now',
      },
    ])
  })

  test('of one tenant', async () => {
    const { tenancy, url } = await openOwn([schemaPg(), databasePg()])
    await failTenTimes(tenancy, 'database-pg', `${url}_missing`)
    expect(await checks(tenancy)).toMatchObject([
      { severity: 'warn', code: 'circuits.tenant-open', tenantId: 'acme', message: expect.stringContaining('"acme"') },
    ])
  })
})

describe('migrations', () => {
  test('that are behind, edited, or unknown here', async () => {
    await make(await open({ migrations: [NOTES, STARS] }), 'acme')
    const THIRD = { ...NOTES, name: '0003_third' }
    const found = async (migrations: TenancyConfig['migrations']) => checks(await open({ migrations }))
    expect(await found([NOTES, STARS, THIRD])).toMatchObject([
      {
        severity: 'warn',
        code: 'migrations.behind',
        message: '1 tenant lack 0003_third',
        remedy: 'Run tenantry tenant:migrate.',
      },
    ])
    expect(await found([NOTES, { ...STARS, checksum: 'another' }])).toMatchObject([
      { severity: 'warn', code: 'migrations.edited', message: expect.stringContaining('0002_stars') },
    ])
    expect(await found([NOTES])).toMatchObject([
      { severity: 'info', code: 'migrations.unknown', message: expect.stringContaining('0002_stars') },
    ])
  })

  test('whose last run failed', async () => {
    await make(tenancy, 'broken')
    const later = await open({ migrations: [NOTES, BROKEN] })
    await later.tenants.migrations.run()
    expect((await checks(later)).map(({ code, message }) => [code, message])).toEqual([
      ['migrations.run-failed', 'the last migration run failed for 1 of its storages'],
      ['migrations.behind', '1 tenant lack 0002_stars'],
    ])
  })
})

describe('storage', () => {
  const CLOSED = 'revoke usage on schema t1_acme from $scope'
  const OPEN = 'grant usage on schema t1_gone to $scope'

  /** Active tenants `acme` and `globex`, a deleted tenant `gone`, and then what should not be. */
  const withFaults = async (...statements: string[]): Promise<void> => {
    for (const id of ['acme', 'globex', 'gone']) await make(tenancy, id)
    await tenancy.tenants.delete('gone')
    expect(await checks(tenancy)).toEqual([])
    const [login] = await sql(`select scope_role from multitenancy.placement_logins where placement = 'main'`)
    for (const one of statements) await sql(one.replace('$scope', login.scope_role))
  }

  test('that is missing, closed, open or left over is a finding', async () => {
    await withFaults(
      'drop schema t1_globex cascade',
      CLOSED,
      OPEN,
      'create schema t1_lost',
      'alter default privileges in schema t1_lost grant select on tables to $scope',
    )
    const found = (await checks(tenancy)).toSorted((one, other) => one.code.localeCompare(other.code))
    const finding = (code: string, severity: string, tenantId: string | undefined, words: string) => ({
      name: 'storage',
      severity,
      code: `storage.${code}`,
      message: `the storage "t1_${tenantId ?? 'lost'}" on "main" ${words}`,
      remedy: expect.stringMatching(/./),
      fixable: code === 'closed' || code === 'open',
      ...(tenantId ? { tenantId } : {}),
    })
    expect(found).toEqual([
      finding('closed', 'info', 'acme', 'is closed, though its tenant is active'),
      finding('left-over', 'warn', undefined, 'belongs to no tenant'),
      finding('missing', 'error', 'globex', 'is not there'),
      finding('open', 'error', 'gone', 'is open, though its tenant is suspended, deleted, or being moved'),
    ])
  })

  test('that is closed or open is fixed', async () => {
    await withFaults(CLOSED, OPEN)
    const report = await tenancy.doctor.fix({ approve: async () => true })
    expect(report).toMatchObject({ status: 'ok', checks: [] })
    expect(report.fixes.toSorted((one, other) => one.code.localeCompare(other.code))).toMatchObject([
      { code: 'storage.closed', tenantId: 'acme', isDone: true, outcome: 'it is open' },
      {
        code: 'storage.open',
        tenantId: 'gone',
        isDone: true,
        outcome: 'it is closed, unless the tenant may use it by now',
      },
    ])
  })

  test('is not changed by a fix whose tenant has changed since the examination', async () => {
    await withFaults(CLOSED, OPEN)
    const { checks, fixes } = await tenancy.doctor.fix({
      approve: async () => {
        await tenancy.tenants.suspend('acme')
        await tenancy.tenants.restore('gone')
        return true
      },
    })
    expect(checks).toEqual([])
    expect(fixes.toSorted((one, other) => one.code.localeCompare(other.code))).toMatchObject([
      { code: 'storage.closed', isDone: true, outcome: expect.stringMatching(/^it was left as it is/) },
      { code: 'storage.open', isDone: true },
    ])
  })

  test('is not told of while it is on its way: transitions and the doctor at the same time', async () => {
    const ids = ['a', 'b', 'c']
    for (const id of ids) await make(tenancy, id)
    let isOver = false
    const turning = ids.map(async (id) => {
      while (!isOver) {
        await tenancy.tenants.suspend(id)
        await tenancy.tenants.activate(id)
      }
    })
    try {
      // A tenant is opened just after the commit that has made it active.
      for (let n = 0; n < 15; n++)
        expect((await checks(tenancy)).filter(({ code }) => code !== 'storage.closed')).toEqual([])
    } finally {
      isOver = true
      await Promise.all(turning)
    }
    expect(await checks(tenancy)).toEqual([])
  })

  test('of a server that does not answer is a finding; the others are looked at', async () => {
    const other = await createTestDatabase(inject('postgresUrl'))
    const placements = { second: { url: other.url } }
    const { tenancy, open, end } = await testTenancy(inject('postgresUrl'), {
      role: 'api',
      migrations: [NOTES],
      placements,
    })
    ends.push(end, other.drop) // the database goes before the roles that its tenants' rights name
    await make(tenancy, 'near')
    await make(tenancy, 'far', { placement: 'second' })
    await tenancy.kernel.database.sql('drop schema t1_near cascade')
    const unreachable = Object.assign(new URL(other.url), { port: '1' }).href
    const found = await checks(await open({ placements: { second: { url: unreachable } } }))
    expect(found.map(({ name, code }) => `${name} ${code}`).sort()).toEqual([
      'servers doctor.not-examined',
      'storage doctor.not-examined',
      'storage storage.missing',
    ])
    expect(found.filter(({ code }) => code === 'doctor.not-examined').map(({ message }) => message)).toEqual([
      expect.stringMatching(/^The storage of schema-pg on "second" could not be examined: /),
      expect.stringMatching(/^What the server of "second" is doing could not be examined: /),
    ])
  })
})
