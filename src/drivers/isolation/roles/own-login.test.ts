/** Tests that SQL of a tenant of database-pg, which has its own login, affects no other tenant. */
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { connected } from '../database-pg.fixture.ts'
import { withDatabase, withLogin } from './login-clients.ts'
import { asLogin, useOwnLogins, WRITE_PASSWORD } from './own-login.fixture.ts'

const here = useOwnLogins()
const { create, endSessions, lines, locatorOf, restored, run, sql } = here

describe('SQL of a tenant', () => {
  test.each([
    'standard_conforming_strings = off',
    `statement_timeout = '1ms'`,
    'default_transaction_read_only = on',
    `datestyle = 'German'`,
  ])('that sets %s for its login changes no session of another tenant', async (setting) => {
    await raw(
      here.acme.db,
      asLogin(`execute format('alter role %I set ${setting.replaceAll("'", "''")}', session_user)`),
    )
    await endSessions()
    const [own] = await eventually(() => raw(here.globex.db, 'select session_user as login'))
    expect(own.login).toBe(await locatorOf('globex'))
    const set = await sql(
      `select rolname from pg_db_role_setting join pg_roles on pg_roles.oid = setrole
       where setconfig::text not like '{search_path=pg_catalog}' and rolname in (select locator from multitenancy.tenants)`,
    )
    expect(set).toEqual([{ rolname: await locatorOf('acme') }])
  })

  test('that changes the password of its login locks out only its own tenant, until the owner restores the password', async () => {
    await raw(here.acme.db, WRITE_PASSWORD)
    await endSessions()
    expect(await eventually(() => raw(here.globex.db, 'select id from notes'))).toEqual([{ id: 1 }])
    const before = restored.length
    const all = Array.from({ length: 5 }, () => eventually(() => raw(here.acme.db, 'select id from notes')))
    expect(await Promise.all(all)).toEqual([[], [], [], [], []])
    const locator = await locatorOf('acme')
    expect(restored.slice(before)).toMatchObject([{ placement: 'main', login: locator, passwordChanged: true }])
    for (const { login } of restored) expect(login).toBe(locator)
    expect(lines.join()).toContain('and was restored')
    expect(await here.opened.tenancy.tenants.storage.rejectedLogins()).toEqual([])
  })

  test('that knows the password of its login cannot connect to the database of another tenant', async () => {
    await raw(here.acme.db, WRITE_PASSWORD)
    const [own, other] = [await locatorOf('acme'), await locatorOf('globex')]
    const url = withLogin(here.opened.url, own, 'x')
    await connected(withDatabase(url, own), (client) => client.query('select 1'))
    await expect(connected(withDatabase(url, other), async () => undefined)).rejects.toMatchObject({ code: '42501' })
  })

  test('cannot end or cancel a session of another tenant', async () => {
    const busy = await here.globex.pool.connect()
    await busy.query('begin')
    const [{ pid }] = (await busy.query('select pg_backend_pid() as pid')).rows
    const client = await here.acme.pool.connect()
    for (const what of ['terminate', 'cancel']) {
      await client.query('begin')
      await client.query('reset role')
      await expect(client.query(`select pg_${what}_backend(${pid})`)).rejects.toMatchObject({ code: '42501' })
      await client.query('rollback')
    }
    client.release()
    expect((await busy.query('select id from notes')).rows).toEqual([{ id: 1 }])
    await busy.query('rollback')
    busy.release()
  })

  test('with a rejected login opens the circuit of its tenant only', async () => {
    const rejected = await create('rejected')
    await run('alter role $rejected nologin')
    await endSessions()
    await eventually(() =>
      expect(raw(rejected.db, 'select 1')).rejects.toMatchObject({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        cause: { cause: { code: '28000' } },
      }),
    )
    await eventually(() => expect(raw(rejected.db, 'select 1')).rejects.toMatchObject({ code: 'E_CIRCUIT_OPEN' }))
    expect(await eventually(() => raw(here.globex.db, 'select id from notes'))).toEqual([{ id: 1 }])
    const { servers, tenants } = here.opened.tenancy.tenants.circuits.snapshot()
    expect([...servers, ...tenants].filter(({ state }) => state !== 'CLOSED')).toMatchObject([{ tenantId: 'rejected' }])
    await here.opened.tenancy.tenants.storage.checkLogins()
  })
})

describe('a purge', () => {
  test('drops role and password with the database', async () => {
    await create('leaving')
    const locator = await locatorOf('leaving')
    expect(await sql('select password from multitenancy.tenant_logins where locator = $1', [locator])).toHaveLength(1)
    const { tenants } = here.opened.tenancy
    await tenants.delete('leaving')
    await sql(`update multitenancy.tenants set purge_at = now() - interval '1 day' where id = 'leaving'`)
    await eventually(() => tenants.installation.purge('leaving'))
    expect(await sql('select from multitenancy.tenant_logins where locator = $1', [locator])).toEqual([])
    expect(await sql('select from pg_roles where rolname = $1', [locator])).toEqual([])
  })
})

test('a password is encrypted in the backoffice and is not logged', async () => {
  const locator = await locatorOf('globex')
  const [{ password }] = await sql('select password from multitenancy.tenant_logins where locator = $1', [locator])
  expect(password).toMatch(/^v1\./)
  const { secrets } = here.opened.tenancy.kernel
  const plain = secrets.decrypt(password, `tenant_logins main ${locator}`)
  const url = withDatabase(withLogin(here.opened.url, locator, plain), locator)
  await connected(url, (client) => client.query('select 1'))
  expect(lines.join()).not.toContain(plain)
  expect(() => secrets.decrypt(password, `tenant_logins main ${locator}_2`)).toThrow()
})
