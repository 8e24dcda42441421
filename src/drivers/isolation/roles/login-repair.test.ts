/** Tests changes of the shared login of a server by SQL of one tenant. */
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { EventOf } from '../../../kernel/events/events.ts'
import { TenantLoginRestored } from '../../../tenants/tenant/login-events.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { databasePg } from '../database-pg.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { schemaPg } from '../schema-pg.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, primary key (tenant_id, id))`,
}
const WRITE_PASSWORD = `do $$ begin set local role none; execute format('alter role %I password ''x''', session_user); end $$`
const WRITE_DEFAULTS = `do $$ begin set local role none; alter role current_user set statement_timeout = '1ms';
  alter role current_user set local_preload_libraries = 'nowhere';
  execute format('alter role current_user in database %I set datestyle = ''German''', current_database()); end $$`

let opened: TestTenancy<[]>
let restored: EventOf<typeof TenantLoginRestored>[]
const lines: string[] = []
const log = createLogger({ level: 'warn', write: (line) => void lines.push(line) })
const drivers = () => [schemaPg(), rowscopePg(), databasePg()]

beforeEach(async () => {
  lines.splice(0)
  restored = []
  opened = await testTenancy(inject('postgresUrl'), { isolation: drivers(), migrations: [NOTES], logger: log })
  opened.tenancy.on(TenantLoginRestored, (event) => void restored.push(event))
})
afterEach(() => opened.end())

const login = async () =>
  (await opened.tenancy.kernel.database.sql('select login from multitenancy.placement_logins')).rows[0].login as string
const server = (text: string) => opened.tenancy.kernel.database.sql(text)
/** Ends all sessions, so that the next statement needs a new one. */
const endSessions = async () =>
  void (await server(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${await login()}' and pid <> pg_backend_pid()`,
  ))
const create = async (id: string, isolation: string) => {
  await installed(opened.tenancy, { id, name: id, isolation })
  return opened.tenancy.tenant(id)
}
const defaults = async () =>
  (await server(`select setconfig from pg_db_role_setting where setrole = '${await login()}'::regrole`)).rows

describe.each(['schema-pg', 'rowscope-pg'])('a shared login, %s', (isolation) => {
  test('is restored when the server rejects it after a tenant has changed its password', async () => {
    const [acme, globex] = [await create('acme', isolation), await create('globex', isolation)]
    await raw(acme.db, WRITE_PASSWORD)
    await endSessions()
    const all = Array.from({ length: 5 }, () => eventually(() => raw(globex.db, 'select id from notes')))
    expect(await Promise.all(all)).toEqual([[], [], [], [], []])
    expect(restored).toMatchObject([{ placement: 'main', login: await login(), passwordChanged: true, settings: [] }])
    expect(lines.join()).toContain('and was restored')
    expect(await opened.tenancy.tenants.storage.rejectedLogins()).toEqual([])
  })
})

const HOLDS: readonly (readonly [string, (login: string) => string])[] = [
  ['an uncommitted change of the password', () => WRITE_PASSWORD],
  [
    'the advisory lock of the login’s name',
    (name) => `select pg_advisory_xact_lock(hashtextextended('tenantry login ${name}', 0))`,
  ],
]

test.each(HOLDS)(
  'a shared login is restored without waiting for a tenant’s transaction that holds %s',
  async (_, hold) => {
    const [acme, globex] = [await create('acme', 'rowscope-pg'), await create('globex', 'schema-pg')]
    const holding = await acme.pool.connect()
    await holding.query('begin')
    await holding.query('select 1') // takes the connection
    await raw(acme.db, WRITE_PASSWORD)
    await holding.query(hold(await login()))
    const { storage } = opened.tenancy.tenants
    await server(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${await login()}' and state = 'idle'`,
    )
    expect(await eventually(() => raw(globex.db, 'select id from notes'))).toEqual([])
    expect(restored).toHaveLength(1)
    expect(await storage.rejectedLogins()).toEqual([])
    await holding.query('rollback').catch(() => undefined) // the owner may have ended its session
    holding.release(true)
  },
)

test('a login whose restored password the server rejects is reported as rejected, and not as restored', async () => {
  const { db } = await create('acme', 'schema-pg')
  await server(`alter role ${await login()} valid until '2000-01-01'`)
  await endSessions()
  await eventually(() =>
    expect(raw(db, 'select id from notes')).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' }),
  )
  expect(restored).toEqual([])
  expect(lines.join()).toContain('VALID UNTIL')
  await expect(opened.tenancy.tenants.storage.checkLogins()).rejects.toThrow('refused by 1 server')
})

test('a changed login is restored once at the start of several processes', async () => {
  const acme = await create('acme', 'schema-pg')
  await raw(acme.db, WRITE_DEFAULTS)
  await raw(acme.db, WRITE_PASSWORD)
  const start = () => opened.open({ isolation: drivers(), migrations: [NOTES], logger: log, role: 'api' })
  const [next] = await Promise.all([start(), start(), start()])
  expect(lines.filter((line) => line.includes('and was restored'))).toHaveLength(1)
  expect(await defaults()).toEqual([{ setconfig: ['search_path=pg_catalog'] }])
  expect(await raw((await next.tenant('acme')).db, 'select id from notes')).toEqual([])
})

test('a login is not restored if the server rejects it for another reason than its password', async () => {
  const { db } = await create('acme', 'schema-pg')
  await server(`alter role ${await login()} nologin`)
  await endSessions()
  await eventually(() =>
    expect(raw(db, 'select id from notes')).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      cause: { code: '28000' },
    }),
  )
  expect(lines.join()).toContain('run tenantry doctor')
  expect(lines.join()).not.toContain('could not be restored')
  expect(restored).toEqual([])
})

test('the doctor reports and restores a login with changed password and defaults', async () => {
  const { doctor } = opened.tenancy
  const acme = await create('acme', 'schema-pg')
  const found = async () =>
    (await doctor.examine()).checks
      .filter(({ name }) => name === 'logins')
      .map(({ code, message }) => `${code} ${message}`)
  expect(await found()).toEqual([])
  await raw(acme.db, WRITE_DEFAULTS)
  await raw(acme.db, WRITE_PASSWORD)
  const database = (await server('select current_database() as name')).rows[0].name
  expect(await found()).toEqual([
    `logins.password main: the password of "${await login()}" was changed`,
    `logins.settings main: the defaults of "${await login()}" were changed: local_preload_libraries, ` +
      `statement_timeout, DateStyle in database ${database}`,
  ])
  const { fixes } = await doctor.fix({ approve: async () => true })
  expect(fixes.map(({ code, outcome }) => `${code}: ${outcome}`)).toEqual([
    'logins.password: it was restored',
    'logins.settings: it had been restored already: together with the password, or by another process',
  ])
  expect(await found()).toEqual([])
  expect(restored).toHaveLength(1)
})

describe('a configured login (tenantUrl)', () => {
  test('that the server rejects fails the check and opens the circuit of its server until it is accepted', async () => {
    await create('acme', 'schema-pg')
    const name = `given_${(await login()).slice(-8)}`
    await server(`create role ${name} login noinherit password 'p'`)
    const tenantUrl = new URL(opened.url)
    tenantUrl.username = name
    tenantUrl.password = 'p'
    const next = await opened.open({
      isolation: drivers(),
      migrations: [NOTES],
      logger: log,
      role: 'api',
      placements: { main: { tenantUrl: tenantUrl.href } },
    })
    await server(`alter role ${name} password 'another'`)
    const { storage, circuits } = next.tenants
    const { db } = await next.tenant('acme')
    for (let n = 0; n < 10; n++) {
      await expect(raw(db, 'select id from notes')).rejects.toMatchObject({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        cause: { code: '28P01' },
      })
    }
    await expect(raw(db, 'select id from notes')).rejects.toMatchObject({ code: 'E_CIRCUIT_OPEN' })
    expect(circuits.snapshot().servers).toMatchObject([{ placement: 'main', state: 'OPEN' }])
    await expect(storage.checkLogins()).rejects.toThrow("login of tenants' queries refused by 1 server")
    expect(lines.filter((line) => line.includes('run tenantry doctor'))).toHaveLength(1)
    expect(JSON.stringify(lines)).not.toContain('another')
    await server(`alter role ${name} password 'p'`)
    await storage.checkLogins()
    await next.stop()
    await server(`drop owned by ${name}; drop role ${name}`)
  })
})
