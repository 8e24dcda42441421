/** What the doctor finds of tenants' own logins, and restores. */
import { afterAll, describe, expect, test } from 'vitest'
import { raw } from '../../testing/leak-operations.ts'
import { eventually } from '../../testing/tenancy.ts'
import { databasePg } from './database-pg.ts'
import { asLogin, useOwnLogins, WRITE_PASSWORD } from './own-login.fixture.ts'

const here = useOwnLogins()
const { endSessions, findings, locatorOf, restored, run, sql } = here

describe('the doctor', () => {
  afterAll(async () => expect(await findings(true)).toEqual([])) // each test has mended what it broke

  test('reports what a tenant has changed of its login, and restores it', async () => {
    const locator = await locatorOf('acme')
    expect(await findings(true)).toEqual([])
    await raw(here.acme.db, asLogin(`alter role current_user set statement_timeout = '1ms'`))
    await raw(here.acme.db, WRITE_PASSWORD)
    expect((await findings()).map(({ code, message }) => `${code} ${message}`)).toEqual([
      `logins.password main: the password of "${locator}" was changed`,
      `logins.settings main: "${locator}" has other defaults than it was made with: statement_timeout`,
    ])
    await here.opened.tenancy.doctor.fix({ approve: async () => true })
    expect(await findings(true)).toEqual([])
    expect(restored).toMatchObject([{ login: locator, passwordChanged: true, settings: ['statement_timeout'] }])
  })

  test('makes a login again that was dropped, with its password', async () => {
    await raw(here.acme.db, 'insert into notes (id) values (7)')
    await run('revoke connect on database $acme from $acme')
    await run('drop role $acme')
    await endSessions()
    await here.opened.tenancy.doctor.fix({ approve: async () => true })
    await here.opened.tenancy.doctor.fix({ approve: async () => true }) // it was closed, as nobody had the right to connect
    expect(await eventually(() => raw(here.acme.db, 'select id from notes'))).toEqual([{ id: 7 }])
    expect(await findings(true)).toEqual([])
  })

  test.each([
    [
      'isolation.own-login-connects',
      'grant connect on database $globex to $acme',
      'revoke connect on database $globex from $acme',
    ],
    ['isolation.own-login-taken', 'grant $acme to $globex', 'revoke $acme from $globex'],
    ['isolation.login-inherits', 'alter role $acme inherit', 'alter role $acme noinherit'],
    ['isolation.login-creates-roles', 'alter role $acme createrole', 'alter role $acme nocreaterole'],
    ['isolation.scope-member', 'create role $stranger in role $scope', 'drop role $stranger'],
    ['isolation.own-login-reaches-rows', 'create schema tenantry_rows', 'drop schema tenantry_rows'],
  ])('finds %s', async (code, by, mended) => {
    const names = { stranger: `${await locatorOf('acme')}_2` }
    await run(by, names)
    const found = await findings(true).finally(() => run(mended, names))
    expect(found.map((one) => one.code)).toContain(code)
  })

  test('gives a login of its own to a tenant that has none', async () => {
    const locator = await locatorOf('acme')
    const [{ login }] = await sql('select login from multitenancy.placement_logins')
    await sql(`delete from multitenancy.tenant_logins where locator = $1`, [locator])
    await run('revoke connect on database $acme from $acme')
    await run('grant connect on database $acme to $login')
    await run('drop role $acme')
    const next = await here.opened.open({ role: 'api', isolation: [databasePg()] })
    const handle = await next.tenant('acme')
    expect(await raw(handle.db, 'select session_user as login')).toEqual([{ login }])
    const found = async () =>
      (await next.doctor.examine({ prove: true })).checks.filter(({ severity }) => severity !== 'info')
    expect(await found()).toMatchObject([
      { severity: 'warn', code: 'isolation.login-shared', tenantId: 'acme', fixable: true },
    ])
    await next.doctor.fix({ prove: true, approve: async () => true })
    expect(await found()).toEqual([])
    expect(await eventually(() => raw(handle.db, 'select session_user as login'))).toEqual([{ login: locator }])
  })
})
