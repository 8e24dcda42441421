import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver, StorageLocation, TenantConnection } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { locationIn, proofMigrations, type Subject } from '../../../testing/base/subject.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { openSubject } from '../proof/subject.fixture.ts'
import { createInstallation, locationOf, provisioned } from '../roles/installation.fixture.ts'
import { schemaPg } from '../schema-pg.ts'
import { fencedDrains, insert } from './drain.fenced.fixture.ts'
import { drains, LONG, watched } from './drain.fixture.ts'

drains(['schema-pg, batch', 'rowscope-pg, batch'])
fencedDrains(['database-pg, batch', 'sqlite-memory'])

describe('a drain of sqlite-memory', () => {
  let subject: Subject
  let driver: IsolationDriver
  let location: StorageLocation
  let connection: TenantConnection

  beforeAll(async () => {
    subject = await openSubject(inject('postgresUrl'), 'sqlite-memory')
    driver = await subject.open(proofMigrations('sqlite'))
    location = locationIn(subject, driver, 'a')
    await driver.provision(location)
  })
  afterAll(() => subject.close())
  const ids = async () => (await driver.execute(location, { text: 'select id from items' })).rows.map(({ id }) => id)

  test('waits for an open transaction, and ends it after graceMs', async () => {
    connection = await driver.connect(location)
    await connection.begin()
    await connection.query(insert(1, 'a'))
    await connection.query({ text: 'savepoint here' })
    await driver.fence(location)
    const waiting = watched(driver.drain(location, LONG))
    await expect(driver.drain(location, { graceMs: 60_000, maxMs: 0 })).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
    })
    expect(waiting.isFinished).toBe(false)
    await driver.drain(location, { graceMs: 0 })
    await waiting.promise
    await driver.unfence(location)
    for (const text of ['select 1', 'rollback to here', `insert into items (id, owner) values (2, 'of a')`]) {
      await expect(connection.query({ text })).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    }
    await expect(connection.end('commit')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await expect(connection.end('commit')).rejects.toThrow('ended before')
    await connection.begin()
    await connection.query(insert(3, 'a'))
    await connection.end('commit')
    connection.release()
    expect(await ids()).toEqual([3])
  })

  test('waits for a migration, which passes the fence, and does not end it', async () => {
    let isMigrating = false
    let gate = Promise.withResolvers<void>()
    gate.resolve()
    const slow: TenantMigration = {
      name: '0009_slow',
      checksum: '9',
      up: async (db) => {
        await db.insertInto('items').values({ id: 9, owner: 'of a migration' }).execute()
        isMigrating = true
        await gate.promise
      },
      down: async (db) => {
        await db.deleteFrom('items').execute()
      },
    }
    const migrated = await subject.open([...proofMigrations('sqlite'), slow])
    const there = locationIn(subject, migrated, 'slow')
    await migrated.provision(there)
    await migrated.rollback(there, 1)
    gate = Promise.withResolvers()
    isMigrating = false
    const migrating = migrated.migrate(there)
    await eventually(() => expect(isMigrating).toBe(true))
    await migrated.fence(there)
    await expect(migrated.drain(there, { graceMs: 0, maxMs: 30 })).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
    })
    const draining = migrated.drain(there, { graceMs: 0 })
    gate.resolve()
    expect(await migrating).toEqual(['0009_slow'])
    await draining
    await migrated.unfence(there)
    expect((await migrated.execute(there, { text: 'select id from items' })).rows).toEqual([{ id: 9 }])
  })
})

test('a drain whose owner may not end sessions of the login connects as the login to end them', async () => {
  const owner = `owner_${Math.random().toString(36).slice(2, 10)}`
  const server = new pg.Client({ connectionString: inject('postgresUrl') })
  await server.connect()
  await server.query(`create role ${owner} login password 'p' createrole`)
  const installation = await createInstallation(inject('postgresUrl'), {
    ownerUrl: (url) => Object.assign(new URL(url), { username: owner, password: 'p' }).href,
    driver: () => schemaPg(),
    migrations: proofMigrations('postgres'),
  })
  try {
    await server.query(`grant create on database ${new URL(installation.url).pathname.slice(1)} to ${owner}`)
    const driver = await installation.open(await installation.prepare())
    const { pool } = await provisioned(driver, 'acme')
    const client = await pool.connect()
    await client.query('begin')
    await client.query(insert(1, 'acme'))
    await driver.fence(locationOf(driver, 'acme'))
    await driver.drain(locationOf(driver, 'acme'), { graceMs: 0 })
    await expect(client.query('commit')).rejects.toThrow()
    client.release(true)
    await driver.unfence(locationOf(driver, 'acme'))
    expect((await pool.query('select id from items')).rows).toEqual([])
  } finally {
    await installation.end()
    await server.query(`drop role ${owner}`)
    await server.end()
  }
})
