/**
 * Findings of the doctor about tenants, on a tenancy with exactly one fault. Faults of storage:
 * tenants.storage.test.ts.
 */
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { testTenancy } from '../../testing/base/tenancy.ts'
import { checks, make, NOTES, useTenancy } from './tenants.fixture.ts'

const STARS = { name: '0002_stars', checksum: '2', up: 'alter table notes add stars int' }
const BROKEN = {
  ...STARS,
  up: `do $$ begin if current_schema() like '%broken%' then raise exception 'no'; end if; end $$`,
}

const here = useTenancy()
const { sql } = here

describe('installations', () => {
  test('that failed are reported', async () => {
    const failing = await here.open({ migrations: [NOTES, BROKEN] })
    await make(failing, 'broken')
    expect(await checks(failing)).toMatchObject([
      {
        name: 'tenants',
        severity: 'warn',
        code: 'tenants.failed',
        message: expect.stringMatching(/^tenant "broken" was not installed: The migration 0002_stars \(up\) failed/),
        remedy: expect.stringContaining('tenantry tenant:activate broken'),
        fixable: true,
        tenantId: 'broken',
      },
    ])
  })

  test('that failed are started again by a fix, unless the tenant has changed meanwhile', async () => {
    const failing = await here.open({ migrations: [NOTES, BROKEN] })
    for (const id of ['broken', 'broken-later']) await make(failing, id)
    const { doctor, tenants } = here.tenancy
    const { fixes } = await doctor.fix({
      approve: async () => {
        await tenants.delete('broken-later')
        return true
      },
    })
    expect(fixes).toMatchObject([
      { tenantId: 'broken', isDone: true, outcome: 'the installation was started again; a worker carries it out' },
      { tenantId: 'broken-later', isDone: true, outcome: 'left unchanged: it is deleted' },
    ])
    await tenants.installation.install('broken', { isLast: true })
    expect(await tenants.get('broken')).toMatchObject({ status: 'active', failure: null })
    expect(await checks(here.tenancy)).toEqual([])
  })

  test('and purges that are stuck are reported', async () => {
    const since = `since ${here.clock.now().toISOString()}`
    await here.tenancy.tenants.create({ id: 'waiting', name: 'Waiting' })
    await here.tenancy.tenants.create({ id: 'going', name: 'Going' })
    await here.tenancy.tenants.installation.install('going', { isLast: true })
    await here.tenancy.tenants.delete('going')
    await sql(`update multitenancy.tenants set purge_started_at = $1 where id = 'going'`, [here.clock.now()])
    here.clock.advance(10 * 60_000)
    expect(await checks(here.tenancy)).toEqual([])
    here.clock.advance(1)
    expect(await checks(here.tenancy)).toMatchObject([
      {
        code: 'tenants.purge-stuck',
        severity: 'warn',
        tenantId: 'going',
        message: `the purge of tenant "going" has not ended ${since}`,
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

test('reports tenants on a driver or placement that is not configured', async () => {
  const { url } = here
  const both = await here.open({
    isolation: [schemaPg(), rowscopePg()],
    placements: { second: { url } },
    migrations: [],
  })
  await make(both, 'rows', { isolation: 'rowscope-pg' })
  await make(both, 'elsewhere', { placement: 'second' })
  const found = (await checks(here.tenancy)).filter(({ name }) => name === 'directory')
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

test('reports undefined plans', async () => {
  const definitions = { free: { limits: {} }, old: { limits: {} } }
  const before = await here.open({ plans: { defaultPlan: 'free', definitions } })
  await make(before, 'acme', { metadata: { plan: 'old' } })
  await make(before, 'globex', { metadata: { plan: 'free' } })
  const later = await here.open({ plans: { defaultPlan: 'free', definitions: { free: { limits: {} } } } })
  expect(await checks(later)).toMatchObject([
    {
      severity: 'warn',
      code: 'plans.undefined',
      message: '1 tenant with the undefined plan "old" count as "free"',
    },
  ])
  const ofHost = await here.open({
    plans: { defaultPlan: 'free', definitions: { free: { limits: {} } }, getPlan: () => 'free' },
  })
  expect(await checks(ofHost)).toEqual([])
})

describe('findings of open circuits', () => {
  /** Tenancies on one database share circuits: each test has its own. */
  const openOwn = async (isolation: TenancyConfig['isolation']) => {
    const made = await testTenancy(inject('postgresUrl'), { role: 'api', isolation })
    onTestFinished(made.end)
    return made
  }
  const log = createLogger({ level: 'silent' })
  const failTenTimes = async ({ tenants }: Tenancy, isolation: string, url: string) => {
    const dead = new Database({ url }, log)
    const location = { tenantId: 'acme', placement: 'main', isolation }
    for (let n = 0; n < 10; n++) await tenants.circuits.run(location, () => dead.sql('select 1')).catch(() => undefined)
    await dead.close()
  }

  test('report an unavailable server once, without its tenants', async () => {
    const { tenancy } = await openOwn([schemaPg()])
    await failTenTimes(tenancy, 'schema-pg', 'postgres://unknown@127.0.0.1:1/nothing')
    expect(await checks(tenancy)).toMatchObject([
      {
        severity: 'error',
        code: 'circuits.server-open',
        message: 'the server of the placement "main" does not respond, and is not called for now',
      },
    ])
  })

  test('report the database of a tenant', async () => {
    const { tenancy, url } = await openOwn([schemaPg(), databasePg()])
    await failTenTimes(tenancy, 'database-pg', `${url}_missing`)
    expect(await checks(tenancy)).toMatchObject([
      { severity: 'warn', code: 'circuits.tenant-open', tenantId: 'acme', message: expect.stringContaining('"acme"') },
    ])
  })
})

describe('migrations', () => {
  test('that are behind, edited, or unknown here are reported', async () => {
    const first = await here.open({ migrations: [NOTES, STARS] })
    await make(first, 'acme')
    await first.stop()
    const THIRD = { ...NOTES, name: '0003_third' }
    // Processes with different texts of one migration do not run together.
    const found = async (migrations: TenancyConfig['migrations']) => {
      const tenancy = await here.open({ migrations })
      return checks(tenancy).finally(() => tenancy.stop())
    }
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

  test('of a failed run are reported', async () => {
    await make(here.tenancy, 'broken')
    const later = await here.open({ migrations: [NOTES, BROKEN] })
    await later.tenants.migrations.run()
    expect((await checks(later)).map(({ code, message }) => [code, message])).toEqual([
      ['migrations.run-failed', 'the last migration run failed for 1 of its storages'],
      ['migrations.behind', '1 tenant lack 0002_stars'],
    ])
  })
})
