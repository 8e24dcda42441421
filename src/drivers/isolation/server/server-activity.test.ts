/** Tests the listed sessions for an owner without rights on those of other roles. */
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { proofMigrations } from '../../../testing/base/subject.ts'
import { databasePg } from '../database-pg.ts'
import { createInstallation, type Installation, locationOf, provisioned } from '../roles/installation.fixture.ts'
import { schemaPg } from '../schema-pg.ts'

const owner = `owner_${Math.random().toString(36).slice(2, 10)}`
let server: pg.Client
let installation: Installation

beforeAll(async () => {
  server = new pg.Client({ connectionString: inject('postgresUrl') })
  await server.connect()
  await server.query(`create role ${owner} login password 'p' createrole createdb`)
  installation = await createInstallation(inject('postgresUrl'), {
    ownerUrl: (url) => Object.assign(new URL(url), { username: owner, password: 'p' }).href,
    driver: () => schemaPg(),
    migrations: proofMigrations('postgres'),
  })
  await server.query(`grant create on database ${new URL(installation.url).pathname.slice(1)} to ${owner}`)
})
afterAll(async () => {
  await installation?.end()
  await server.query(`drop role ${owner}`)
  await server.end()
})

test('activity lists the sessions of the owner and of the login only, and their statements on request only', async () => {
  const placement = await installation.prepare()
  const driver = await installation.open(placement)
  const { pool } = await provisioned(driver, 'acme')
  const [ofTenant, ofOwner, ofHost] = [
    await pool.connect(),
    new pg.Client({ connectionString: placement.url, application_name: 'a console' }),
    new pg.Client({ connectionString: installation.url, application_name: 'another program' }),
  ]
  try {
    await ofOwner.connect()
    await ofHost.connect()
    await ofTenant.query('begin')
    await ofTenant.query(`select   'of the tenant'`)
    await ofOwner.query(`begin; select '${'x'.repeat(300)}'`)
    await ofHost.query('begin')
    const read = async (showsSql: boolean) => {
      const { sessions = [] } = (await driver.activity?.('main', { longMs: 0, showsSql })) ?? {}
      const times = sessions.map(({ since }) => since.getTime())
      expect(times).toEqual(times.toSorted((a, b) => a - b))
      return sessions
        .filter(({ state }) => state !== 'active')
        .toSorted((a, b) => a.application.localeCompare(b.application))
        .map(({ role, application, database, state, sql, isUpkeep }) => ({
          role,
          application,
          database,
          state,
          sql,
          isUpkeep,
        }))
    }
    const state = 'idle in transaction'
    const login = decodeURIComponent(new URL(placement.tenantUrl).username)
    const tenants = { role: login, application: 'tenantry tenants', database: null, state, isUpkeep: false }
    const console = { role: owner, application: 'a console', database: null, state, isUpkeep: false }
    expect(await read(false)).toEqual([
      { ...console, sql: null },
      { ...tenants, sql: null },
    ])
    expect(await read(true)).toEqual([
      { ...console, sql: `begin; select '${'x'.repeat(300)}'`.slice(0, 200) },
      { ...tenants, sql: "select 'of the tenant'" },
    ])
    expect(await driver.activity?.('main', { longMs: 60_000, showsSql: true })).toMatchObject({ sessions: [] })
    await ofTenant.query('rollback')
  } finally {
    ofTenant.release(true)
    await ofOwner.end()
    await ofHost.end()
  }
})

test('activity lists the sessions of tenants’ own logins for an owner that is no superuser', async () => {
  const driver = await installation.open(await installation.prepare(), { driver: () => databasePg() })
  const { pool } = await provisioned(driver, 'globex')
  const { locator } = locationOf(driver, 'globex')
  const client = await pool.connect()
  await client.query('begin')
  await client.query(`select 'of globex'`)
  const { sessions = [] } = (await driver.activity?.('main', { longMs: 0, showsSql: true })) ?? {}
  expect(sessions).toContainEqual(
    expect.objectContaining({ role: locator, database: locator, sql: `select 'of globex'`, isUpkeep: false }),
  )
  await client.query('rollback')
  client.release()
  await driver.drop(locationOf(driver, 'globex'))
})
