import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { startProxy } from '../../../test/support/proxy.ts'
import type { IsolationDriver, Placement } from '../../tenants/isolation/driver.ts'
import { directHandle } from '../../testing/base/direct-handle.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { connected, NOTES, OWNERS, raw, useDatabasePg } from './database-pg.fixture.ts'
import { databasePg } from './database-pg.ts'
import { type Installation, locationOf, provisioned } from './roles/installation.fixture.ts'
import { withDatabase } from './roles/login-clients.ts'
import { lockOf } from './transactions/owner-transaction.ts'

const fixture = useDatabasePg()
const { databases, fresh, locatorOf, sessions, sql } = fixture
let installation: Installation
let placement: Placement
let driver: IsolationDriver
beforeAll(() => {
  ;({ installation, placement, driver } = fixture)
})

const otherProcess = (migrations = [NOTES]): Promise<Child> =>
  startChild(new URL('./server/database-process.fixture.ts', import.meta.url), {
    installation: installation.id,
    placement,
    migrations,
  })

describe('provisioning', () => {
  test('20 concurrent calls in two processes create each database once', async () => {
    const child = await otherProcess()
    const ids = Array.from({ length: 20 }, (_, n) => `many-${n}`)
    const there = ids.slice(0, 6).map((id) => child.request({ what: 'provision', location: locationOf(driver, id) }))
    const here = ids.map((id) => driver.provision(locationOf(driver, id)))
    expect(await Promise.all([...here, ...there])).toEqual(Array(26).fill(['0001_notes']))
    for (const id of ids) {
      expect(await directHandle(driver, locationOf(driver, id)).pool.query('select 1 from notes')).toMatchObject({
        rows: [],
      })
    }
    await child.kill('SIGTERM')
    await Promise.all(ids.map((id) => driver.drop(locationOf(driver, id))))
    expect(await databases('many-%')).toEqual([])
  })

  describe('provisioning that was killed succeeds when it is repeated:', () => {
    /** All databases share the catalog that it locks: a test can block the migration from another connection. */
    const HELD_UP = { ...NOTES, up: `lock table pg_shseclabel in share row exclusive mode; ${NOTES.up}` }
    const waiting = (query: string) =>
      eventually(async () => {
        const found = await sql(
          `select from pg_stat_activity where application_name = 'tenantry ddl' and wait_event_type = 'Lock' and query ilike $1
             and datname in (current_database(), $2)`,
          [query, locatorOf('killed')],
        )
        expect(found).toHaveLength(1)
      })
    const killedWhen = async (reached: (locator: string) => Promise<void>) => {
      const location = locationOf(driver, 'killed')
      const child = await otherProcess([HELD_UP])
      const dying = child.request({ what: 'provision', location }).catch((error: Error) => error.message)
      await reached(location.locator)
      await child.kill('SIGKILL')
      expect(await dying).toBe('the child process has exited')
      expect(await driver.isFenced(location)).toBe(true)
    }
    const goesOn = async () => {
      const location = locationOf(driver, 'killed')
      expect(await driver.provision(location)).toEqual(['0001_notes'])
      const { pool } = directHandle(driver, location)
      await pool.query(`insert into notes (id, owner) values (1, 'killed')`)
      await driver.drop(location)
      expect(await databases('killed')).toEqual([])
    }

    test('killed while the database is copied', async () => {
      await connected(placement.url, async (blocker) => {
        await blocker.query('begin; lock table pg_database in share mode')
        await killedWhen(() => waiting('create database%'))
      })
      await goesOn()
    })

    test('killed while the migrations run', async () => {
      await connected(placement.url, async (blocker) => {
        await blocker.query('begin; lock table pg_shseclabel in share row exclusive mode')
        await killedWhen(() => waiting('%lock table pg_shseclabel%'))
      })
      await goesOn()
    })

    test('killed after the migrations and before the database is opened', async () => {
      await connected(placement.url, async (blocker) => {
        await blocker.query('begin; lock table pg_shseclabel in share row exclusive mode')
        await killedWhen(async (locator) => {
          await waiting('%lock table pg_shseclabel%')
          await blocker.query(`select pg_advisory_lock(${lockOf(locator)}); commit`)
          await waiting('begin; set local lock_timeout%pg_advisory_xact_lock%')
        })
        expect(await driver.applied(locationOf(driver, 'killed'))).toEqual(['0001_notes'])
      })
      await goesOn()
    })
  })

  test('provisioning waits for connections to the template', async () => {
    const template = `test_busy_${locatorOf('t').slice(3, 9)}`
    await sql(`create database ${template}`)
    const copying = await installation.open(placement, { driver: () => databasePg({ template }), migrations: [NOTES] })
    const location = locationOf(copying, 'patient')
    const attempts = async () =>
      (await sql(`select query_start::text from pg_stat_activity where query like 'create database%${template}%'`)).map(
        ({ query_start }) => query_start,
      )
    const provisioning = await connected(withDatabase(placement.url, template), async () => {
      const provisioning = copying.provision(location)
      const [first] = await eventually(async () => {
        const found = await attempts()
        expect(found).toHaveLength(1)
        return found
      })
      await eventually(async () => expect(await attempts()).not.toEqual([first]), 15_000) // one failed attempt
      return { provisioning }
    })
    expect(await provisioning.provisioning).toEqual(['0001_notes'])
    await copying.drop(location)
    await sql(`drop database ${template}`)
  })
})

describe('a fence', () => {
  test('a fence ends the connections of all processes and rejects new ones until it is lifted', async () => {
    const location = locationOf(driver, 'closed')
    const { pool, transaction } = await fresh('closed')
    const child = await otherProcess()
    const ask = (text: string) => child.request({ what: 'execute', location, text })
    expect(await ask(OWNERS)).toEqual([{ owner: 'closed' }])
    const sleeping = expect(ask(`insert into notes (id, owner) select 2, 'never' from pg_sleep(60)`)).rejects.toThrow(
      '57P01',
    )
    await eventually(async () => {
      expect(
        await sql(`select from pg_stat_activity where wait_event = 'PgSleep' and datname = $1`, [location.locator]),
      ).toHaveLength(1)
    })
    const working = transaction(async (db) => {
      await raw(db, `insert into notes (id, owner) values (3, 'never')`)
      await driver.fence(location)
      await raw(db, OWNERS)
    })
    await expect(working).rejects.toSatisfy(driver.mayBeFence)
    await sleeping
    expect(await sessions('closed')).toEqual([])
    expect(await driver.isFenced(location)).toBe(true)
    await expect(ask(OWNERS)).rejects.toThrow('E_TENANT_STORAGE_FENCED')
    await expect(pool.query(OWNERS)).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await expect(transaction((db) => raw(db, OWNERS))).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await driver.fence(location)
    await driver.unfence(location)
    await driver.unfence(location)
    expect(await driver.isFenced(location)).toBe(false)
    expect([await ask(OWNERS), (await pool.query(OWNERS)).rows]).toEqual(Array(2).fill([{ owner: 'closed' }]))
    await child.kill('SIGTERM')
    await driver.drop(location)
  })

  test.each(['alone', 'in a transaction'])(
    'after an unnoticed loss of the connection, a statement (%s) uses another connection',
    async (how) => {
      const location = locationOf(driver, 'unheard')
      const { pool } = await fresh('unheard')
      const [{ pid }] = (await pool.query('select pg_backend_pid() as pid')).rows
      const ending = `import pg from 'pg'
      const client = new pg.Client(process.argv[1])
      await client.connect()
      await client.query('select pg_terminate_backend($1, 10000)', [process.argv[2]])
      await client.end()`
      // This process receives no notice of the loss while it waits for the child process.
      const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', ending, placement.url, String(pid)])
      const asked =
        how === 'alone'
          ? pool.query(OWNERS).then(({ rows }) => rows)
          : directHandle(driver, location).transaction((db) => raw(db, OWNERS))
      expect(status).toBe(0)
      expect(await asked).toEqual([{ owner: 'unheard' }])
      await driver.drop(location)
    },
  )

  test('a fence also ends connections that are established concurrently', async () => {
    const location = locationOf(driver, 'stormed')
    await fresh('stormed')
    const children = await Promise.all([otherProcess(), otherProcess()])
    let isFinished = false
    const storming = children.map(async (child) => {
      while (!isFinished) await child.request({ what: 'execute', location, text: OWNERS }).catch(() => undefined)
    })
    for (let n = 0; n < 15; n++) {
      await driver.unfence(location)
      await eventually(async () => expect(await sessions('stormed')).not.toEqual([]))
      await driver.fence(location)
      expect(await sessions('stormed')).toEqual([])
    }
    isFinished = true
    await Promise.all(storming)
    await Promise.all(children.map((child) => child.kill('SIGTERM')))
    await driver.drop(location)
  })
})

test('a connection that leads to the database of another tenant is not used', async () => {
  // With own logins the server would reject the connection: each tenant has another password.
  const shared = await installation.open({ ...fixture.placement, ownLogins: undefined })
  for (const id of ['c', 'd']) await provisioned(shared, id)
  const [asked, given] = ['c', 'd'].map(locatorOf) as [string, string]
  const astray = await startProxy(installation.url, (sent) =>
    Buffer.from(sent.toString('latin1').replace(asked, given), 'latin1'),
  )
  const placement = await installation.prepare()
  const tenantUrl = Object.assign(new URL(placement.tenantUrl), { host: new URL(astray.url).host }).href
  const led = await installation.open({ ...placement, tenantUrl, ownLogins: undefined })
  await expect(led.execute(locationOf(led, 'c'), { text: 'select 1' })).rejects.toThrow(
    `connected to the database "${given}"`,
  )
  expect(await led.execute(locationOf(led, 'd'), { text: 'select 1' })).toMatchObject({ rowCount: 1 })
  await led.stop()
  await astray.close()
})
