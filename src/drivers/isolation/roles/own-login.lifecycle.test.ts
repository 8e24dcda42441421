/** Tests the lifecycle of the login of a tenant's database. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import { reencryptColumn } from '../../../kernel/database/re-encrypt.ts'
import {
  type IsolationDriver,
  type Placement,
  type Repair,
  StorageFenced,
  type StorageLocation,
} from '../../../tenants/isolation/driver.ts'
import { ENCRYPTED_LOGINS } from '../../../tenants/isolation/own-logins.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { databasePg } from '../database-pg.ts'
import { createInstallation, type Installation, locationOf, provisioned } from './installation.fixture.ts'
import { KeptLogins } from './kept-logins.ts'
import { ownLoginStatements } from './own-login-role.ts'
import { type PlacementConfig, preparePlacement } from './tenant-login.ts'

const WHO = 'select session_user as login'
let installation: Installation
let placement: Placement
let driver: IsolationDriver

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), { driver: () => databasePg() })
  placement = await installation.prepare()
  driver = await installation.open(placement)
})
afterAll(() => installation?.end())

const sql = async (text: string, values: unknown[] = []) => (await installation.database.sql(text, values)).rows
const whoIs = async (one: IsolationDriver, id: string) =>
  (await directHandle(one, locationOf(one, id)).pool.query(WHO)).rows[0].login
/** Number of stored passwords and of roles for a database. */
const left = async (locator: string) => [
  (await sql('select from multitenancy.tenant_logins where locator = $1', [locator])).length,
  (await sql('select from pg_roles where rolname = $1', [locator])).length,
]

describe('provisioning', () => {
  test('continues after an interruption between password and role, and creates the login once', async () => {
    const location = locationOf(driver, 'killed')
    const password = await placement.ownLogins?.keep(location.locator)
    expect(await left(location.locator)).toEqual([1, 0])
    await provisioned(driver, 'killed')
    expect(await placement.ownLogins?.passwordOf(location.locator)).toBe(password)
    expect(await whoIs(driver, 'killed')).toBe(location.locator)
    await driver.provision(location)
    expect(await placement.ownLogins?.passwordOf(location.locator)).toBe(password)
    expect(await left(location.locator)).toEqual([1, 1])
    await driver.drop(location)
    await driver.drop(location)
    expect(await left(location.locator)).toEqual([0, 0])
  })

  test('sends no password to the server', () => {
    for (const isThere of [true, false]) {
      expect(ownLoginStatements('name', 'the-password', 'scope', isThere)).not.toContain('the-password')
    }
  })

  test('does not take over an existing role of the name', async () => {
    const location = locationOf(driver, 'taken')
    await sql(`create role ${pg.escapeIdentifier(location.locator)} login`)
    onTestFinished(async () => void (await sql(`drop role ${pg.escapeIdentifier(location.locator)}`)))
    await expect(driver.provision(location)).rejects.toThrow(`The role "${location.locator}" exists on the server`)
    await driver.drop(location)
    expect(await left(location.locator)).toEqual([0, 1])
  })

  test('creates a role that may only connect and take the scope role', async () => {
    const { locator } = locationOf(driver, 'plain')
    await provisioned(driver, 'plain')
    const [role] = await sql(
      `select rolsuper, rolbypassrls, rolinherit, rolcreaterole, rolcreatedb, rolreplication from pg_roles where rolname = $1`,
      [locator],
    )
    expect(Object.values(role)).toEqual(Array(6).fill(false))
    const taken = await sql('select roleid::regrole::text as role from pg_auth_members where member = $1::regrole', [
      pg.escapeIdentifier(locator),
    ])
    expect(taken).toEqual([{ role: placement.scopeRole }])
    const granted = await sql(
      `select datname, privilege_type from pg_database, aclexplode(datacl) where grantee = $1::regrole`,
      [pg.escapeIdentifier(locator)],
    )
    expect(granted).toEqual([{ datname: locator, privilege_type: 'CONNECT' }])
  })

  test('creates no login if the placement shares one, and logs this at the start', async () => {
    const lines: string[] = []
    const log = createLogger({ level: 'warn', write: (line) => void lines.push(line) })
    const shared = databasePg()
    const ownLogins = new KeptLogins('main', installation.database, createSecrets(TEST_APP_KEY), false)
    const placements = new Map([['main', { ...placement, ownLogins }]])
    expect(driver.capabilities.containsTenantSql).toBe(true)
    await shared.start({ installation: installation.id, placements, migrations: [], generation: () => 0, log })
    onTestFinished(() => shared.stop())
    expect(shared.capabilities.containsTenantSql).toBe(false)
    expect(lines.join()).toContain('share one login here')
    await provisioned(shared, 'sharing')
    expect(await whoIs(shared, 'sharing')).toBe(new URL(placement.tenantUrl).username)
    expect(await left(locationOf(shared, 'sharing').locator)).toEqual([0, 0])
    const locations = async function* () {
      yield locationOf(shared, 'sharing')
    }
    expect(await Array.fromAsync(shared.audit(locations()))).toMatchObject([
      {
        severity: 'info',
        code: 'isolation.login-shared',
        message: expect.stringContaining('`tenantUrl` is configured'),
      },
    ])
    await shared.drop(locationOf(shared, 'sharing'))
  })

  test('creates own logins unless a pooler is used', async () => {
    const prepare = (config: Partial<PlacementConfig>) =>
      preparePlacement(
        'main',
        { url: placement.url, ...config },
        installation.database,
        createSecrets(TEST_APP_KEY),
        createLogger({ level: 'silent' }),
      )
    const areMade = async (config: Partial<PlacementConfig>) => (await prepare(config)).ownLogins?.areMade
    expect(await areMade({})).toBe(true)
    expect(await areMade({ pooler: true })).toBe(false)
  })
})

test('a copy into other storage has its own login, and dropping the former storage drops the former login', async () => {
  const [former, next] = [1, 2].map((epoch) => ({
    ...locationOf(driver, 'moved'),
    epoch,
    locator: driver.locator('moved', epoch),
  })) as [StorageLocation, StorageLocation]
  await provisioned(driver, 'moved')
  const signal = AbortSignal.timeout(30_000)
  await driver.export(former, (copy) => driver.import(next, copy, { signal }), { signal })
  const passwords = await Promise.all([former, next].map(({ locator }) => placement.ownLogins?.passwordOf(locator)))
  expect(new Set(passwords).size).toBe(2)
  expect((await driver.execute(next, { text: WHO })).rows).toEqual([{ login: next.locator }])
  await driver.drop(former)
  expect([await left(former.locator), await left(next.locator)]).toEqual([
    [0, 0],
    [1, 1],
  ])
  await driver.drop(next)
})

test('a tenant without an own login receives one from the doctor, and closed storage stays closed', async () => {
  const shared = await installation.open({ ...placement, ownLogins: undefined })
  const [open, closed] = ['early', 'early-closed'].map((id) => locationOf(driver, id)) as [
    StorageLocation,
    StorageLocation,
  ]
  for (const { tenantId } of [open, closed]) await provisioned(shared, tenantId)
  await driver.fence(closed)
  expect(await whoIs(driver, open.tenantId)).toBe(new URL(placement.tenantUrl).username)
  const locations = async function* () {
    yield* [open, closed]
  }
  const audited = async () => (await Array.fromAsync(driver.audit(locations()))).map(({ code }) => code)
  const found = await Array.fromAsync(driver.audit(locations()))
  expect(found).toMatchObject([open, closed].map(({ tenantId }) => ({ code: 'isolation.login-shared', tenantId })))
  for (const { subject } of found) await (subject as Repair)()
  expect(await audited()).toEqual([])
  expect(await driver.isFenced(closed)).toBe(true)
  await driver.unfence(closed)
  for (const { tenantId, locator } of [open, closed]) expect(await whoIs(driver, tenantId)).toBe(locator)
  await expect(shared.execute(open, { text: WHO })).rejects.toSatisfy(StorageFenced.matches)
})

test('a fence and its lifting apply to the own login of the tenant', async () => {
  const location = locationOf(driver, 'fenced')
  const { pool } = await provisioned(driver, 'fenced')
  await driver.fence(location)
  expect(await driver.isFenced(location)).toBe(true)
  await expect(pool.query(WHO)).rejects.toSatisfy(StorageFenced.matches)
  await driver.unfence(location)
  expect(await whoIs(driver, 'fenced')).toBe(location.locator)
})

test('a password is encrypted again after a change of the application key', async () => {
  const { locator } = locationOf(driver, 'resealed')
  await provisioned(driver, 'resealed')
  const password = await placement.ownLogins?.passwordOf(locator)
  const next = createSecrets(Buffer.alloc(32, 9).toString('base64'), [TEST_APP_KEY])
  const { failed, current } = await reencryptColumn(
    installation.database,
    next,
    ENCRYPTED_LOGINS,
    AbortSignal.timeout(10_000),
  )
  expect([failed, current]).toEqual([0, 0])
  const nextOnly = createSecrets(Buffer.alloc(32, 9).toString('base64'))
  const kept = new KeptLogins('main', installation.database, nextOnly, true)
  expect(await kept.passwordOf(locator)).toBe(password)
  await reencryptColumn(
    installation.database,
    createSecrets(TEST_APP_KEY, [Buffer.alloc(32, 9).toString('base64')]),
    ENCRYPTED_LOGINS,
    AbortSignal.timeout(10_000),
  )
})
