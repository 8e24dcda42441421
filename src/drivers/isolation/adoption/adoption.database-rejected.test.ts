/** Tests databases that database-pg does not adopt, and code of their owner that must not run with the rights of `url`. */
import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { IsolationDriver, Placement } from '../../../tenants/isolation/driver.ts'
import { createOwner } from '../copy/copy-storage.fixture.ts'
import { databasePg } from '../database-pg.ts'
import { createInstallation, type Installation } from '../roles/installation.fixture.ts'
import { withDatabase, withLogin } from '../roles/login-clients.ts'

const suffix = randomBytes(4).toString('hex')
const role = `legacy_${suffix}`
const name = `prod_${suffix}`
let installation: Installation
let placement: Placement
let driver: IsolationDriver

const requestOf = (locator: string) => ({
  location: { tenantId: 'acme', isolation: 'database-pg', placement: 'main', locator, epoch: 1 },
  baseline: [],
  acceptDifferences: [],
})
const planOf = async (locator = name, from = driver) => {
  if (!from.adoption) throw new Error('database-pg does not adopt')
  return from.adoption.plan(requestOf(locator))
}
const reasonsOf = async (locator = name, from = driver) => (await planOf(locator, from)).reasons
const adopt = async (digest: string) =>
  driver.adoption?.adopt(requestOf(name), {
    adoptionId: randomUUID(),
    digest,
    assertNotAbandoned: async () => undefined,
  })
const sql = (text: string) => installation.database.session(async (client) => (await client.query(text)).rows)
async function inDatabase(text: string, login?: string) {
  const url = withDatabase(installation.url, name)
  const client = new pg.Client({ connectionString: login ? withLogin(url, login, 'legacy') : url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), { driver: () => databasePg() })
  placement = await installation.prepare()
  driver = await installation.open(placement)
  await sql(`create role ${role} login password 'legacy'`)
})
afterAll(async () => {
  await sql(`drop role ${role}`)
  await installation.end()
})
beforeEach(async () => {
  await sql(`create database ${name} owner ${role} template template0`)
  await inDatabase('create table notes (id int primary key)', role)
})
afterEach(async () => {
  await sql(`drop database ${name} with (force)`)
})

describe('the plan rejects a database with', () => {
  test.each([
    [
      'the jobs of a backoffice',
      'create schema multitenancy_jobs',
      'the database has the schema "multitenancy_jobs" of an installation of Tenantry: adopt another database',
    ],
    [
      'tenants of another installation',
      'create schema tenantry',
      'the database has the schema "tenantry" of an installation of Tenantry: adopt another database',
    ],
    [
      'another schema with objects',
      'create schema crm; create table crm.t (id int)',
      'the schema "crm" of the database has objects, and a deletion of the tenant drops them: remove them',
    ],
    ['large objects', 'select lo_create(0)', 'the database has large objects, which no backup of a tenant contains'],
    [
      'an event trigger',
      `create schema e; create function e.f() returns event_trigger language plpgsql as 'begin end';
       create event trigger late on ddl_command_end execute function e.f()`,
      'the event trigger "late" runs with the rights of the role of `url`: drop it',
    ],
  ])('%s', async (_, text, reason) => {
    await inDatabase(text)
    const { reasons, digest } = await planOf()
    expect(reasons).toContain(reason)
    await expect(adopt(digest)).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    expect(await sql(`select pg_get_userbyid(datdba) as owner from pg_database where datname = '${name}'`)).toEqual([
      { owner: role },
    ])
  })

  test('objects in public, if the application has another schema', async () => {
    await inDatabase('create schema app', role)
    const plan = await driver.adoption?.plan({ ...requestOf(name), schema: 'app' })
    expect(plan?.reasons).toEqual([
      'the schema "public" of the database has objects, and a deletion of the tenant drops them: remove them',
    ])
  })

  test('a name of the form that database-pg generates', async () => {
    const generated = `t1_${suffix.slice(0, 6)}_acme`
    await sql(`create database ${generated} template template0`)
    try {
      expect(await reasonsOf(generated)).toEqual([
        `the name of the database "${generated}" has the form of a tenant's: rename it`,
      ])
    } finally {
      await sql(`drop database ${generated}`)
    }
  })

  test('an empty schema and extensions in another one: both are adopted', async () => {
    await inDatabase('create schema empty; create schema extensions; create extension pg_trgm schema extensions')
    expect(await reasonsOf()).toEqual([])
  })
})

test('the database of any placement is rejected, and any database while a placement does not respond', async () => {
  const urls = { eu: withDatabase(installation.url, name), us: 'postgres://unknown@127.0.0.1:1/none' }
  const others = Object.entries(urls).map(([key, url]) => [key, { ...placement, name: key, url }] as const)
  const other = databasePg()
  const [migrations, generation, log] = [[], () => 0, createLogger({ level: 'silent' })]
  const placements = new Map<string, Placement>([['main', placement], ...others])
  await other.start({ installation: installation.id, placements, migrations, generation, log })
  try {
    expect(await reasonsOf(name, other)).toEqual([
      `the database "${name}" is that of the placement "eu"`,
      'the server of the placement "us" does not respond, so its database cannot be compared',
    ])
  } finally {
    await other.stop()
  }
})

test('statements in the search path of the database do not run', async () => {
  const injected = `x;alter/**/role/**/${role}/**/superuser`
  await inDatabase(
    `select set_config('search_path', '${injected}', false); alter database ${name} set search_path from current`,
    role,
  )
  const { reasons, statements, digest } = await planOf()
  expect(reasons).toEqual([
    `the search path of the database has the name "${injected}", which is no identifier: set it with quoted names`,
  ])
  expect(statements).toContain(`alter database "${name}" set search_path = "tenant", "${injected}"`)
  await expect(adopt(digest)).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
  expect(await sql(`select rolsuper from pg_roles where rolname = '${role}'`)).toEqual([{ rolsuper: false }])
})

test('functions of the database do not replace those of PostgreSQL', async () => {
  const attack = `language plpgsql as 'begin raise exception ''ran as %'', current_user; end'`
  await inDatabase(
    `create function public.hashtextextended(text, int) returns bigint ${attack};
     create function public.set_config(text, text, boolean) returns text ${attack};
     alter database ${name} set search_path = public, pg_catalog`,
    role,
  )
  await adopt((await planOf()).digest)
  expect(await driver.inventory?.('main')).toEqual([{ locator: name, isFenced: false }])
  await driver.adoption?.release(requestOf(name).location)
  expect(
    await inDatabase(
      'select setconfig from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())',
    ),
  ).toEqual([{ setconfig: ['search_path=public, pg_catalog'] }])
})

test('a role of `url` that is no superuser reads the identity of a database', async () => {
  const owner = await createOwner(inject('postgresUrl'))
  const own = await createInstallation(inject('postgresUrl'), { driver: () => databasePg(), ownerUrl: owner.ownerUrl })
  try {
    await own.database.session((client) =>
      client.query(
        `do $$ begin execute format('grant create on database %I to ${owner.name}', current_database()); end $$`,
      ),
    )
    const opened = await own.open(await own.prepare())
    await sql(`grant ${role} to ${owner.name}`)
    expect(await reasonsOf(name, opened)).toEqual([])
  } finally {
    await own.end()
    await owner.drop()
  }
})
