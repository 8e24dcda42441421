import fc from 'fast-check'
import pg from 'pg'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver, Placement } from '../../tenants/isolation/driver.ts'
import { directHandle } from '../../testing/base/direct-handle.ts'
import { connected, NOTES, OWNERS, raw, useDatabasePg } from './database-pg.fixture.ts'
import { databasePg } from './database-pg.ts'
import {
  createInstallation,
  type Installation,
  locationOf,
  loginUrlOf,
  provisioned,
} from './roles/installation.fixture.ts'
import { withDatabase } from './roles/login-clients.ts'

const fixture = useDatabasePg()
const { databases, fresh, locatorOf, sessions, sql } = fixture
let installation: Installation
let placement: Placement
let driver: IsolationDriver
let a: StorageHandle
let b: StorageHandle
beforeAll(() => {
  ;({ installation, placement, driver, a, b } = fixture)
})

const loginOf = ({ tenantUrl }: Placement) => new URL(tenantUrl).username

describe('database name', () => {
  const id = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,47}$/)
  const epoch = fc.integer({ min: 1, max: 2 ** 31 - 1 })
  const started = async (installation: string, placements: readonly Placement[]) => {
    const made = databasePg()
    await made.start({
      installation,
      placements: new Map(placements.map((one) => [one.name, one])),
      migrations: [],
      generation: () => 0,
      log: createLogger({ level: 'silent' }),
    })
    return made
  }

  test('a database name has at most 63 bytes and is unique for each id and epoch', () => {
    fc.assert(
      fc.property(id, epoch, id, epoch, (id, epoch, otherId, otherEpoch) => {
        const name = driver.locator(id, epoch)
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
        expect(name === driver.locator(otherId, otherEpoch)).toBe(id === otherId && epoch === otherEpoch)
      }),
      { numRuns: 2_000 },
    )
    expect(Buffer.byteLength(driver.locator('z'.repeat(48), 2 ** 31 - 1))).toBe(63)
  })

  test('database names differ between installations on one server and do not depend on the placements', async () => {
    const { id } = installation
    const elsewhere = { ...placement, url: withDatabase(placement.url, 'another') }
    const made = await Promise.all([
      started(id, [placement]),
      started(id, [elsewhere, { ...placement, name: 'eu' }]),
      started('others', [placement]),
    ])
    const [one, again, other] = made.map((driver) => driver.locator('acme', 1))
    expect(one).toBe(`t1_${id}_acme`)
    expect(again).toBe(one)
    expect(other).toBe('t1_others_acme')
    await Promise.all(made.map((driver) => driver.stop()))
  })

  test('an installation whose placement was replaced still knows its databases', async () => {
    const before = await driver.inventory?.('main')
    const grown = await started(installation.id, [placement, { ...placement, name: 'eu' }])
    expect(await grown.inventory?.('main')).toEqual(before)
    expect(before).toContainEqual({ locator: locatorOf('a'), isFenced: false })
    await grown.stop()
  })
})

describe('a tenant', () => {
  test('a tenant has its tables in its own database and cannot read those of other tenants', async () => {
    await a.db.insertInto('notes').values({ id: 1, owner: 'a' }).execute()
    await b.db.insertInto('notes').values({ id: 1, owner: 'b' }).execute()
    const where = `select current_database() as database, current_setting('search_path') as path, current_user as role, tenant_id, owner
      from notes`
    expect(await raw(a.db, where)).toEqual([
      {
        database: locatorOf('a'),
        path: '"tenant", "pg_temp"',
        role: placement.scopeRole,
        tenant_id: 'a',
        owner: 'a',
      },
    ])
    expect(await raw(b.db, where)).toMatchObject([{ database: locatorOf('b'), tenant_id: 'b', owner: 'b' }])
    expect(await raw(a.db, `select nextval('numbers')::int as n`)).toEqual([{ n: 1 }])
    expect(await raw(b.db, `select nextval('numbers')::int as n`)).toEqual([{ n: 1 }])
  })

  test('a tenant can only read and write rows, and no other role can connect to its database', async () => {
    await connected(await loginUrlOf(placement, locatorOf('a')), async (client) => {
      for (const text of [
        'select * from tenant.notes',
        'create schema mine',
        'create table public.mine ()',
        'create temporary table mine ()',
        'select * from tenantry.migrations',
      ]) {
        await expect(client.query(text), text).rejects.toMatchObject({ code: '42501' })
      }
      const { rows } = await client.query(
        `select has_database_privilege(current_database(), 'create') as "mayCreate",
           (select count(*)::int from pg_class where relowner = session_user::regrole) as owned`,
      )
      expect(rows).toEqual([{ mayCreate: false, owned: 0 }])
    })
    for (const text of ['truncate notes', 'create table mine ()', 'drop table notes', 'create schema mine']) {
      await expect(raw(a.db, text), text).rejects.toMatchObject({ code: '42501' })
    }
    const other = await createInstallation(inject('postgresUrl'))
    try {
      const strangers = [
        (await other.prepare()).tenantUrl,
        placement.tenantUrl,
        await loginUrlOf(placement, locatorOf('b')),
      ]
      for (const stranger of strangers) {
        const attempt = connected(withDatabase(stranger, locatorOf('a')), async () => undefined)
        await expect(attempt, stranger).rejects.toMatchObject({ code: '42501' })
      }
    } finally {
      await other.end()
    }
  })

  test('a tenant finds types of extensions in the schema where the template has them', async () => {
    const template = `test_template_${locatorOf('t').slice(3, 9)}`
    await sql(`create database ${template}`)
    await connected(withDatabase(placement.url, template), (client) =>
      client.query(`create schema ext; grant usage on schema ext to public;
        create domain ext.email as text check (value like '%@%')`),
    )
    const extended = await installation.open(placement, {
      driver: () => databasePg({ template, extensionsSchema: 'ext' }),
      migrations: [{ name: '0001_people', checksum: '', up: 'create table people (address email)' }],
    })
    const { db } = await provisioned(extended, 'extended')
    await db.insertInto('people').values({ address: 'a@b' }).execute()
    await expect(db.insertInto('people').values({ address: 'ab' }).execute()).rejects.toMatchObject({ code: '23514' })
    await extended.drop(locationOf(extended, 'extended'))
    await sql(`drop database ${template}`)
  })
})

describe('provisioning', () => {
  test('eight concurrent calls create each database once', async () => {
    const other = await installation.open(await installation.prepare())
    const ids = Array.from({ length: 4 }, (_, n) => `several-${n}`)
    const made = [driver, other].flatMap((one) => ids.map((id) => one.provision(locationOf(driver, id))))
    expect(await Promise.all(made)).toEqual(Array(8).fill(['0001_notes']))
    for (const id of ids) {
      expect((await directHandle(driver, locationOf(driver, id)).pool.query('select 1 from notes')).rows).toEqual([])
    }
    await Promise.all(ids.map((id) => driver.drop(locationOf(driver, id))))
    expect(await databases('several-%')).toEqual([])
  })

  test('a tenant whose migrations fail stays closed, and provisioning continues after they are fixed', async () => {
    const location = locationOf(driver, 'broken')
    const broken = await installation.open(placement, {
      driver: () => databasePg(),
      migrations: [NOTES, { name: '0002_broken', checksum: '2', up: 'create table half (); select * from missing' }],
    })
    await expect(broken.provision(location)).rejects.toMatchObject({
      code: 'E_MIGRATION_FAILED',
      message: expect.stringContaining('0002_broken'),
    })
    expect(await driver.isFenced(location)).toBe(true)
    expect(await driver.applied(location)).toEqual([])
    await expect(driver.execute(location, { text: 'select 1' })).rejects.toMatchObject({
      code: 'E_TENANT_STORAGE_FENCED',
    })
    expect(await driver.provision(location)).toEqual(['0001_notes'])
    expect((await driver.execute(location, { text: 'select * from notes' })).rows).toEqual([])
    await driver.drop(location)
  })

  test('provisioning replaces a database whose drop was interrupted', async () => {
    const location = locationOf(driver, 'half-dropped')
    await driver.provision(location)
    await sql('update pg_database set datconnlimit = -2 where datname = $1', [location.locator])
    await expect(driver.execute(location, { text: 'select 1' })).rejects.toMatchObject({
      code: 'E_TENANT_STORAGE_FENCED',
    })
    expect(await driver.provision(location)).toEqual(['0001_notes'])
    expect((await driver.execute(location, { text: 'select * from notes' })).rows).toEqual([])
    await sql('update pg_database set datconnlimit = -2 where datname = $1', [location.locator])
    await driver.drop(location)
    expect(await databases('half-dropped')).toEqual([])
  })
})

describe('a migration', () => {
  test('migrations run, roll back and are idempotent, also for a suspended tenant', async () => {
    const location = locationOf(driver, 'migrated')
    await driver.provision(location)
    await driver.fence(location)
    expect(await driver.rollback(location, 1)).toEqual(['0001_notes'])
    expect(await driver.applied(location)).toEqual([])
    expect(await driver.migrate(location)).toEqual(['0001_notes'])
    expect(await driver.migrate(location)).toEqual([])
    expect(await driver.isFenced(location)).toBe(true)
    await driver.drop(location)
  })

  test('a migration waits for a lock no longer than its timeout', async () => {
    const adding = await installation.open(placement, {
      driver: () => databasePg(),
      migrations: [NOTES, { name: '0002_more', checksum: '2', up: 'alter table notes add column more int' }],
    })
    const location = locationOf(driver, 'busy')
    await provisioned(driver, 'busy')
    await directHandle(driver, location).transaction(async (db) => {
      await db.selectFrom('notes').select('id').execute()
      await expect(adding.migrate(location, { lockTimeoutMs: 50 })).rejects.toMatchObject({ code: '55P03' })
    })
    expect(await adding.migrate(location)).toEqual(['0002_more'])
    await driver.drop(location)
  })

  test('a migration of a missing database runs nothing', async () => {
    const gone = locationOf(driver, 'gone')
    await expect(driver.migrate(gone)).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED' })
    await expect(driver.rollback(gone, 1)).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED' })
    expect(await driver.applied(gone)).toEqual([])
  })
})

describe('a fence', () => {
  test('a fence ends idle connections without an error, and the next statement reports it', async () => {
    const location = locationOf(driver, 'idle')
    const { pool } = await fresh('idle')
    const other = await installation.open(await installation.prepare())
    expect((await other.execute(location, { text: OWNERS })).rows).toEqual([{ owner: 'idle' }])
    await other.fence(location)
    const [alone, started] = await Promise.allSettled([
      pool.query(OWNERS),
      driver.connect(location).then((connection) => connection.begin().finally(() => connection.release())),
    ])
    expect([alone, started]).toMatchObject(Array(2).fill({ reason: { code: 'E_TENANT_STORAGE_FENCED' } }))
    await driver.unfence(location)
    expect((await pool.query(OWNERS)).rows).toEqual([{ owner: 'idle' }])
    await driver.drop(location)
  })

  test('a fence applies to a login from an earlier configuration, too', async () => {
    const location = locationOf(driver, 'inherited')
    const shared = await installation.open({ ...placement, ownLogins: undefined })
    await provisioned(shared, 'inherited')
    await shared.execute(location, { text: `insert into notes (id, owner) values (1, 'inherited')` })
    const { tenantUrl, scopeRole } = placement
    const url = new URL(tenantUrl)
    url.username = `${loginOf(placement)}_2`
    await sql(
      `create role ${url.username} login noinherit password '${url.password}'; grant ${scopeRole} to ${url.username}`,
    )
    const next = await installation.open({ ...placement, tenantUrl: url.href, ownLogins: undefined })
    try {
      await expect(next.execute(location, { text: OWNERS })).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
      expect(await next.isFenced(location)).toBe(true)
      await next.unfence(location)
      for (const one of [shared, next]) {
        expect((await one.execute(location, { text: OWNERS })).rows).toEqual([{ owner: 'inherited' }])
      }
      await next.fence(location)
      expect(await sessions('inherited')).toEqual([])
      for (const one of [shared, next]) expect(await one.isFenced(location)).toBe(true)
    } finally {
      await next.drop(location)
      await shared.stop()
      await next.stop()
      await sql(`drop role ${url.username}`)
    }
  })
})

describe('a drop', () => {
  test('two concurrent drops remove a database with open connections, and a drop is idempotent', async () => {
    const location = locationOf(driver, 'leaving')
    const { pool, db } = await provisioned(driver, 'leaving')
    const working = await db.startTransaction().execute()
    await working.insertInto('notes').values({ id: 1, owner: 'leaving' }).execute()
    const watcher = new pg.Client({ connectionString: withDatabase(placement.url, location.locator) })
    watcher.on('error', () => undefined)
    await watcher.connect()
    const other = await installation.open(await installation.prepare())
    await Promise.all([driver.drop(location), other.drop(location), driver.drop(location)])
    await driver.drop(location)
    expect(await databases('leaving')).toEqual([])
    await expect(working.rollback().execute()).rejects.toThrow()
    await expect(pool.query('select 1')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await watcher.end()
    expect(await driver.provision(location)).toEqual(['0001_notes'])
    expect((await pool.query('select * from notes')).rows).toEqual([])
    await driver.drop(location)
  })
})

test('the inventory lists the databases of this installation and which of them are closed', async () => {
  const other = await createInstallation(inject('postgresUrl'), { driver: () => databasePg() })
  const there = await other.open(await other.prepare())
  await there.provision(locationOf(there, 'theirs'))
  await driver.fence(locationOf(driver, 'b'))
  expect(await driver.inventory?.('main')).toEqual([
    { locator: locatorOf('a'), isFenced: false },
    { locator: locatorOf('b'), isFenced: true },
  ])
  expect(await there.inventory?.('main')).toEqual([{ locator: locationOf(there, 'theirs').locator, isFenced: false }])
  await driver.unfence(locationOf(driver, 'b'))
  await other.end()
})

describe('an owner that is not a superuser', () => {
  const owned = async (attributes: string, work: (installation: Installation, owner: string) => Promise<void>) => {
    const owner = `owner_${Math.random().toString(36).slice(2, 10)}`
    await sql(`create role ${owner} login password 'p' ${attributes}`)
    const as = (url: string) => Object.assign(new URL(url), { username: owner, password: 'p' }).href
    const theirs = await createInstallation(inject('postgresUrl'), {
      ownerUrl: as,
      driver: () => databasePg(),
      migrations: [NOTES],
    })
    try {
      await sql(`grant create on database ${new URL(theirs.url).pathname.slice(1)} to ${owner}`)
      await work(theirs, owner)
    } finally {
      await theirs.end()
      await sql(`drop role ${owner}`)
    }
  }

  test('an owner needs only the rights CREATEROLE and CREATEDB', async () => {
    await owned('createrole createdb', async (theirs) => {
      const placement = await theirs.prepare()
      const driver = await theirs.open(placement)
      const location = locationOf(driver, 'acme')
      const { pool, transaction } = await provisioned(driver, 'acme')
      await pool.query(`insert into notes (id, owner) values (1, 'acme')`)
      const other = await theirs.open(await theirs.prepare())
      const there = directHandle(other, location)
      const working = there.transaction(async (db) => {
        await raw(db, 'select 1')
        await driver.fence(location)
        await raw(db, 'select 1')
      })
      await expect(working).rejects.toSatisfy(driver.mayBeFence)
      await expect(transaction((db) => raw(db, 'select 1'))).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
      expect(await driver.rollback(location, 1)).toEqual(['0001_notes'])
      await driver.unfence(location)
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
      const busy = await there.db.startTransaction().execute()
      await raw(busy, 'select 1')
      await driver.drop(location)
      expect(await sql('select from pg_database where datname = $1', [location.locator])).toEqual([])
      await expect(raw(busy, 'select 1')).rejects.toThrow()
      await busy
        .rollback()
        .execute()
        .catch(() => undefined)
    })
  })

  test('an error names the statement that grants CREATEDB to an owner without it', async () => {
    await owned('createrole', async (theirs, owner) => {
      const driver = await theirs.open(await theirs.prepare())
      const location = locationOf(driver, 'acme')
      await expect(driver.provision(location)).rejects.toThrow(`  alter role ${owner} createdb;`)
      await sql(`alter role ${owner} createdb`)
      expect(await driver.provision(location)).toEqual(['0001_notes'])
      await driver.drop(location)
    })
  })
})
