import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { Database } from '../../../kernel/database/database.ts'
import { createInstallation, type Installation, provisioned } from './installation.fixture.ts'

const log = createLogger({ level: 'silent' })
const NOTES = [{ name: '0001_notes', checksum: '', up: 'create table notes (owner text)' }]

let server: Database
let installation: Installation
const roles: string[] = []

beforeAll(() => {
  server = new Database({ url: inject('postgresUrl'), max: 1 }, log)
})
afterAll(async () => {
  for (const role of roles) await server.sql(`drop role if exists ${role}`)
  await server.close()
})
beforeEach(async () => {
  installation = await createInstallation(inject('postgresUrl'))
})
afterEach(() => installation.end())

/** Creates a login of the host. Returns the URL by which it connects to the installation. */
async function createLogin(attributes = ''): Promise<{ name: string; url: string }> {
  const name = `host_${randomBytes(4).toString('hex')}`
  await server.sql(`create role ${name} login password 'p' ${attributes}`)
  roles.unshift(name)
  return { name, url: as(name, 'p')(installation.url) }
}
const as = (login: string, password: string) => (url: string) => {
  const changed = new URL(url)
  changed.username = login
  changed.password = password
  return changed.href
}
const sql = async (text: string, values: unknown[] = []) => (await installation.database.sql(text, values)).rows
const loginOf = (url: string) => new URL(url).username
const write = async (tenantUrl: string | undefined, tenantId: string) => {
  const driver = await installation.open(await installation.prepare(tenantUrl), { migrations: NOTES })
  const { db } = await provisioned(driver, tenantId)
  await db.insertInto('notes').values({ owner: tenantId }).execute()
  return db.selectFrom('notes').selectAll().execute()
}

describe('the login that Tenantry creates', () => {
  test('has no privileges, owns nothing, and may read nothing outside of a tenant’s scope', async () => {
    const { tenantUrl, scopeRole } = await installation.prepare()
    const login = loginOf(tenantUrl)
    await write(undefined, 'acme')
    expect(
      await sql(
        `select rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication, rolcanlogin
         from pg_roles where rolname in ($1, $2) order by rolcanlogin`,
        [login, scopeRole],
      ),
    ).toEqual(
      [false, true].map((rolcanlogin) => ({
        rolsuper: false,
        rolinherit: false,
        rolcreaterole: false,
        rolcreatedb: false,
        rolbypassrls: false,
        rolreplication: false,
        rolcanlogin,
      })),
    )
    expect(
      await sql(
        `select oid::regclass from pg_class where relkind in ('r', 'p', 'v', 'm', 'S')
           and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
           and (relowner = $1::regrole or has_table_privilege($1, oid, 'select, insert, update, delete, truncate'))`,
        [login],
      ),
    ).toEqual([])
    const outside = new pg.Client({ connectionString: tenantUrl })
    await outside.connect()
    try {
      expect((await outside.query('show search_path')).rows).toEqual([{ search_path: 'pg_catalog' }])
      for (const [table, state] of [
        ['notes', '42P01'],
        ['"t1_acme".notes', '42501'],
        ['tenantry.migrations', '42501'],
        ['multitenancy.tenants', '42501'],
        ['multitenancy.placement_logins', '42501'],
      ]) {
        await expect(outside.query(`select * from ${table}`)).rejects.toMatchObject({ code: state })
      }
      await expect(outside.query('create schema mine')).rejects.toMatchObject({ code: '42501' })
      await expect(outside.query('create table public.mine ()')).rejects.toMatchObject({ code: '42501' })
      await outside.query(`set role ${pg.escapeIdentifier(scopeRole)}`)
      for (const statement of ['truncate t1_acme.notes', 'drop table t1_acme.notes', 'create table t1_acme.more ()']) {
        await expect(outside.query(statement)).rejects.toMatchObject({ code: '42501' })
      }
    } finally {
      await outside.end()
    }
  })

  test('is the same for ten concurrent processes and for the next start; its password is stored encrypted', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => installation.prepare()))
    const [first] = all
    for (const urls of all) expect(urls).toEqual(first)
    expect(await installation.prepare()).toEqual(first)
    expect(await write(undefined, 'acme')).toEqual([{ owner: 'acme' }])
    const password = new URL(first?.tenantUrl ?? '').password
    expect(JSON.stringify(await sql('select * from multitenancy.placement_logins'))).not.toContain(password)
  })

  test('differs between installations on one server, which have no rights on each other', async () => {
    const other = await createInstallation(inject('postgresUrl'), { migrations: NOTES })
    try {
      const [one, two] = await Promise.all([installation.prepare(), other.prepare()])
      expect(loginOf(one.tenantUrl)).not.toBe(loginOf(two.tenantUrl))
      expect(one.scopeRole).not.toBe(two.scopeRole)
      await provisioned(await other.open(two), 'acme')
      expect(await write(undefined, 'acme')).toEqual([{ owner: 'acme' }])
      const stranger = new pg.Client({
        connectionString: as(loginOf(one.tenantUrl), new URL(one.tenantUrl).password)(other.url),
      })
      await stranger.connect()
      await expect(stranger.query('select * from "t1_acme".notes')).rejects.toMatchObject({ code: '42501' })
      await expect(stranger.query(`set role ${two.scopeRole}`)).rejects.toMatchObject({ code: '42501' })
      await stranger.end()
    } finally {
      await other.end()
    }
  })
})

describe('a configured login', () => {
  test('is used, and receives the rights on every tenant from the former login', async () => {
    expect(await write(undefined, 'acme')).toEqual([{ owner: 'acme' }])
    const { url } = await createLogin()
    expect(await write(url, 'acme')).toHaveLength(2)
    const { url: next } = await createLogin('noinherit')
    expect(await write(next, 'acme')).toHaveLength(3)
    expect(await write(undefined, 'acme')).toHaveLength(4)
    expect(await write(url, 'beta')).toEqual([{ owner: 'beta' }])
  })

  test.each([
    ['a superuser', 'superuser', [], 'is a superuser'],
    ['exempt from row security', 'bypassrls', [], 'bypasses row security'],
    ['the owner of the database', '', ['alter database $database owner to $login'], 'owns something'],
    [
      'the owner of one table',
      '',
      ['create table public.own ()', 'alter table public.own owner to $login'],
      'owns something',
    ],
    [
      'the owner of one function',
      '',
      ['create function public.own() returns int language sql return 1', 'alter function public.own() owner to $login'],
      'owns something',
    ],
    ['a member of the owner', '', ['grant $other to $login', 'create schema s authorization $other'], 'owns something'],
    ['a role that may read all data', '', ['grant pg_read_all_data to $login'], 'may read or write everything'],
  ])('that is %s is rejected', async (_, attributes, statements, fault) => {
    const { name, url } = await createLogin(attributes)
    const { name: other } = await createLogin()
    const database = new URL(installation.url).pathname.slice(1)
    for (const statement of statements) {
      await sql(statement.replace('$login', name).replace('$other', other).replace('$database', database))
    }
    await expect(write(url, 'acme')).rejects.toThrow(fault)
    await sql(`reassign owned by ${name}, ${other} to current_user; drop owned by ${name}, ${other}`)
  })
})

describe('an owner that is no superuser', () => {
  const installFor = async (attributes: string) => {
    await installation.end()
    const { name } = await createLogin(attributes)
    installation = await createInstallation(inject('postgresUrl'), { ownerUrl: as(name, 'p') })
    const database = new URL(installation.url).pathname.slice(1)
    await sql(`grant create on database ${database} to ${name}`)
  }

  test('needs only the right to create roles', async () => {
    await installFor('createrole')
    expect(await write(undefined, 'acme')).toEqual([{ owner: 'acme' }])
  })

  test('without the right to create roles is rejected with the statements for an administrator, which make the start succeed', async () => {
    await installFor('')
    const failure = await installation.prepare().catch((error: Error) => error.message)
    const statements = String(failure)
      .split('\n')
      .filter((line) => line.startsWith('  '))
    expect(statements).toEqual([
      expect.stringMatching(/^ {2}create role "tenantry_tenant" login nosuperuser nobypassrls .* password '…';$/),
      '  alter role "tenantry_tenant" set search_path = pg_catalog;',
      `  grant connect on database "${new URL(installation.url).pathname.slice(1)}" to "tenantry_tenant";`,
      '  create role "tenantry_tenant_scope" nologin noinherit;',
      '  grant "tenantry_tenant_scope" to "tenantry_tenant";',
    ])
    // Role names belong to the whole server, where another installation uses them.
    const unique = (text: string) => text.replaceAll('tenantry_tenant', login)
    const login = `admin_${randomBytes(4).toString('hex')}`
    roles.push(login, `${login}_scope`)
    for (const statement of statements) await server.sql(unique(statement).replace('…', 'by the administrator'))
    expect(await write(as(login, 'by the administrator')(installation.url), 'acme')).toEqual([{ owner: 'acme' }])
  })
})
