/** Tests the adoption of existing databases by database-pg: rows, login, the former application, and the release. */
import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { AdoptionRequest, DriverAdoption } from '../../../tenants/isolation/adoption.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { databasePg } from '../database-pg.ts'
import { createInstallation, type Installation } from '../roles/installation.fixture.ts'
import { withDatabase, withLogin } from '../roles/login-clients.ts'
import { quoted } from './adoption.fixture.ts'
import { baselineOf, LEGACY_APPLICATIONS, type LegacyApplication, rightsOf } from './legacy-schemas.fixture.ts'

const [shop, , ledger] = LEGACY_APPLICATIONS as [LegacyApplication, LegacyApplication, LegacyApplication]
const DATABASE_RIGHTS = `
  select pg_get_userbyid(datdba) as owner, array(select unnest(coalesce(datacl, acldefault('d', datdba)))::text order by 1) as rights,
    array(select unnest(setconfig) from pg_db_role_setting where setdatabase = pg_database.oid) as settings,
    array(select proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^lo_'
      and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0) order by 1) as functions,
    array(select nspname from pg_namespace where nspname !~ '^pg_' order by 1) as schemas
  from pg_database where datname = current_database()`

describe.each([
  { application: shop, schema: 'public' },
  { application: ledger, schema: 'app' },
])('the database of an application with the schema $schema', ({ application, schema }) => {
  const suffix = randomBytes(4).toString('hex')
  const role = `legacy_${suffix}`
  const locator = `Prod "${suffix}"`
  const location: StorageLocation = { tenantId: 'acme', isolation: 'database-pg', placement: 'main', locator, epoch: 1 }
  const request: AdoptionRequest = {
    location,
    baseline: baselineOf(application),
    acceptDifferences: [],
    ...(schema === 'public' ? {} : { schema }),
  }
  let installation: Installation
  let driver: IsolationDriver
  let adoption: DriverAdoption
  let before: unknown[]

  async function inDatabase<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => undefined)
    await client.connect()
    return work(client).finally(() => client.end())
  }
  const asOwner = async (text: string) =>
    inDatabase(withDatabase(installation.url, locator), async (client) => (await client.query(text)).rows)
  /** The application does not name its schema, if that is `public`. */
  const asApplication = (text: string) =>
    inDatabase(withLogin(withDatabase(installation.url, locator), role, 'legacy'), (client) => client.query(text))
  const state = async () => {
    const rights = await inDatabase(withDatabase(installation.url, locator), async (client) =>
      rightsOf({ sql: async (text, values) => client.query(text as string, [...(values ?? [])]) }, schema),
    )
    return [await asOwner(DATABASE_RIGHTS), rights]
  }
  const adopt = (digest: string) =>
    adoption.adopt(request, { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined })
  const audit = async () => {
    const one = (async function* () {
      yield location
    })()
    return (await Array.fromAsync(driver.audit(one))).filter(({ severity }) => severity === 'error')
  }

  beforeAll(async () => {
    installation = await createInstallation(inject('postgresUrl'), {
      driver: () => databasePg(),
      migrations: application.migrations,
    })
    driver = await installation.open(await installation.prepare())
    if (!driver.adoption) throw new Error('database-pg does not adopt')
    adoption = driver.adoption
    await installation.database.sql(`create role ${role} login password 'legacy'`)
    await installation.database.sql(`create database ${quoted(locator)} owner ${role} template template0`)
    const dump = application.dump(schema, role)
    if (schema === 'public') {
      await asOwner(
        dump.replace(
          /CREATE SCHEMA public; ALTER SCHEMA public OWNER TO \w+;/,
          `grant create on schema public to ${role};`,
        ),
      )
    } else {
      await asOwner(`${dump}; alter role ${role} in database ${quoted(locator)} set search_path = tenant, app`)
    }
    before = await state()
    expect((before[1] as unknown[]).length).toBeGreaterThan(5)
  })
  afterAll(async () => {
    await installation.database.sql(`drop database ${quoted(locator)} with (force)`)
    await installation.database.sql(`drop role ${role}`)
    await installation.end()
  })

  test('has no difference from the migrations, and the plan changes nothing', async () => {
    const plan = await adoption.plan(request)
    expect(plan).toMatchObject({ reasons: [], differences: [] })
    expect(plan.statements).toContain(`alter schema ${quoted(schema)} rename to "tenant"`)
    expect(await state()).toEqual(before)
    expect((await adoption.plan(request)).digest).toBe(plan.digest)
  })

  test('becomes an isolated tenant with its own login, and the application continues to run', async () => {
    await adopt((await adoption.plan(request)).digest)
    expect(await audit()).toEqual([])
    expect(await driver.inventory?.('main')).toEqual([{ locator, isFenced: false }])
    expect(await driver.applied(location)).toEqual(baselineOf(application))
    const { db } = directHandle(driver, location)
    for (const [table, count] of Object.entries(application.rows)) {
      expect(await raw(db, `select count(*)::int as count from ${quoted(table)}`)).toEqual([{ count }])
    }
    expect(await raw(db, 'select session_user::text as login')).toEqual([{ login: locator }])
    for (const text of application.writes) await raw(db, text)
    await asApplication(application.writes.join('; '))
    expect(await driver.migrate(location)).toEqual(application.migrations.slice(-1).map(({ name }) => name))
  })

  test('is fenced and opened', async () => {
    await driver.fence(location)
    expect(await driver.isFenced(location)).toBe(true)
    await driver.unfence(location)
    expect(await driver.isFenced(location)).toBe(false)
    expect(await audit()).toEqual([])
  })

  test('has its owners, rights, settings and schemas of before after the release', async () => {
    await driver.fence(location)
    await adoption.release(location)
    const [database, rights] = (await state()) as [unknown, { object: string }[]]
    const known = new Set((before[1] as { object: string }[]).map(({ object }) => object))
    expect([database, rights.filter(({ object }) => known.has(object))]).toEqual(before)
    expect(await driver.inventory?.('main')).toEqual([])
    expect((await installation.database.sql('select from pg_roles where rolname = $1', [locator])).rows).toEqual([])
    expect(await adoption.release(location)).toEqual([])
    await asApplication(application.writes.join('; '))
  })
})

test('databases that cannot be adopted are rejected with their reasons', async () => {
  const installation = await createInstallation(inject('postgresUrl'), { driver: () => databasePg() })
  const name = `taken_${randomBytes(4).toString('hex')}`
  try {
    const { adoption } = await installation.open(await installation.prepare())
    const planOf = (locator: string) =>
      adoption?.plan({
        location: { tenantId: 'acme', isolation: 'database-pg', placement: 'main', locator, epoch: 1 },
        baseline: [],
        acceptDifferences: [],
      })
    await expect(planOf('nowhere')).rejects.toMatchObject({
      code: 'E_NOT_ADOPTABLE',
      extras: { reasons: ['the database "nowhere" does not exist'] },
    })
    const own = new URL(installation.url).pathname.slice(1)
    expect((await planOf(own))?.reasons).toContainEqual(
      expect.stringContaining('is reserved, or the storage of a tenant'),
    )
    expect((await planOf('postgres'))?.reasons).toContainEqual(expect.stringContaining('is reserved'))
    await installation.database.sql(`create role ${name}`)
    await installation.database.sql(`create database ${name} template template0 is_template true`)
    const taken = await planOf(name)
    expect(taken?.reasons).toEqual([
      `the database "${name}" is a template: alter database … is_template false`,
      `a role has the name of the database "${name}": rename one of them`,
    ])
  } finally {
    await installation.database.sql(`alter database ${name} is_template false`)
    await installation.database.sql(`drop database ${name}`)
    await installation.database.sql(`drop role ${name}`)
    await installation.end()
  }
})
