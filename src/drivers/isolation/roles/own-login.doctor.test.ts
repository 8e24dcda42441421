/** Tests the doctor's findings and fixes for tenants' own logins. */
import { afterAll, describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { databasePg } from '../database-pg.ts'
import { asLogin, useOwnLogins, WRITE_PASSWORD } from './own-login.fixture.ts'

const here = useOwnLogins()
const { endSessions, findings, locatorOf, restored, run, sql } = here

/** Runs the doctor with fixes; the report has the remaining findings. */
const fix = (options: { readonly prove?: boolean } = {}) =>
  here.opened.tenancy.doctor.fix({ ...options, approve: async () => true })

describe('the doctor', () => {
  afterAll(async () => expect(await findings(true)).toEqual([])) // each test has fixed its faults

  test('reports the changes that a tenant has made to its login, and restores it', async () => {
    const locator = await locatorOf('acme')
    restored.splice(0)
    await raw(here.acme.db, asLogin(`alter role current_user set statement_timeout = '1ms'`))
    await raw(here.acme.db, WRITE_PASSWORD)
    expect((await findings()).map(({ code, message }) => `${code} ${message}`)).toEqual([
      `logins.password main: the password of "${locator}" was changed`,
      `logins.settings main: the defaults of "${locator}" were changed: statement_timeout`,
    ])
    expect(await fix()).toMatchObject({ status: 'ok' })
    expect(restored).toMatchObject([{ login: locator, passwordChanged: true, settings: ['statement_timeout'] }])
  })

  test('creates a dropped login again, with its stored password', async () => {
    await raw(here.acme.db, 'insert into notes (id) values (7)')
    await run('revoke connect on database $acme from $acme')
    await run('drop role $acme')
    await endSessions()
    await fix()
    // The database was closed while no role had the right to connect.
    expect(await fix({ prove: true })).toMatchObject({ status: 'ok' })
    expect(await eventually(() => raw(here.acme.db, 'select id from notes'))).toEqual([{ id: 7 }])
  })

  test('reports rights that exceed those of one tenant’s login', async () => {
    const [acme, globex] = [await locatorOf('acme'), await locatorOf('globex')]
    const names = { stranger: `${acme}_2` }
    await run('grant connect on database $globex to $acme')
    await run('grant $acme to $globex')
    await run('alter role $acme inherit createrole')
    await run('create role $stranger in role $scope', names)
    await run('create schema tenantry_rows')
    const found = await findings(true).finally(async () => {
      await run('revoke connect on database $globex from $acme')
      await run('revoke $acme from $globex')
      await run('alter role $acme noinherit nocreaterole')
      await run('drop role $stranger', names)
      await run('drop schema tenantry_rows')
    })
    expect(found.map(({ code, message }) => `${code} ${message}`).sort()).toEqual([
      expect.stringMatching(`^isolation.login-creates-roles .*role ${acme} may create roles$`),
      expect.stringMatching(`^isolation.login-inherits .*role ${acme} inherits the rights of its roles`),
      expect.stringMatching(`^isolation.login-member-of .*role ${globex} may become ${acme}$`),
      expect.stringMatching(`^isolation.own-login-connects .*role ${acme} .* may connect to the database ${globex}$`),
      expect.stringMatching(/^isolation.own-login-reaches-rows .* has rows of other tenants/),
      expect.stringMatching(`^isolation.own-login-taken .*role ${globex} may become ${acme}, the login of one tenant$`),
      expect.stringMatching(`^isolation.scope-member .*role ${names.stranger} may become `),
    ])
  })

  test('gives an own login to a tenant without one', async () => {
    const locator = await locatorOf('acme')
    const [{ login }] = await sql('select login from multitenancy.placement_logins')
    await sql(`delete from multitenancy.tenant_logins where locator = $1`, [locator])
    await run('revoke connect on database $acme from $acme')
    await run('grant connect on database $acme to $login')
    await run('drop role $acme')
    const next = await here.opened.open({ role: 'api', isolation: [databasePg()] })
    const handle = await next.tenant('acme')
    expect(await raw(handle.db, 'select session_user as login')).toEqual([{ login }])
    const { checks } = await next.doctor.examine({ prove: true })
    expect(checks.filter(({ severity }) => severity !== 'info')).toMatchObject([
      { severity: 'warn', code: 'isolation.login-shared', tenantId: 'acme', fixable: true },
    ])
    expect(await next.doctor.fix({ prove: true, approve: async () => true })).toMatchObject({ status: 'ok' })
    expect(await eventually(() => raw(handle.db, 'select session_user as login'))).toEqual([{ login: locator }])
  })
})
