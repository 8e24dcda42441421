import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { Database } from '../../../kernel/database/database.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { FAST_KINDS } from '../proof/subject.fixture.ts'
import { createInstallation, type Installation, provisioned } from '../roles/installation.fixture.ts'
import { placementsOf } from '../roles/tenant-login.ts'
import { sessionSettings } from './session-settings.fixture.ts'
import { DECIDED, startupOptions, withSettings } from './session-settings.ts'

let server: Database
let installation: Installation
beforeAll(async () => {
  server = new Database({ url: inject('postgresUrl'), max: 1 }, createLogger({ level: 'silent' }))
  installation = await createInstallation(inject('postgresUrl'))
})
afterAll(async () => {
  await installation.end()
  await server.close()
})

test('every setting of this server that an ordinary role may change is classified once', async () => {
  const { rows } = await server.sql(`select name from pg_settings where context = 'user' order by name`)
  const names = rows.map(({ name }) => name)
  expect(names.filter((name) => !DECIDED.includes(name))).toEqual([])
  expect(DECIDED.filter((name, at) => DECIDED.indexOf(name) !== at)).toEqual([])
})

test('a value with spaces and backslashes is one word of the startup packet', async () => {
  const settings = new Map([
    ['DateStyle', 'ISO, DMY'],
    ['app.note', 'a \\ b'],
  ])
  expect(startupOptions(settings)).toBe('-c DateStyle=ISO,\\ DMY -c app.note=a\\ \\\\\\ b')
  const asked = new Database(
    { url: withSettings(inject('postgresUrl'), settings), max: 1 },
    createLogger({ level: 'silent' }),
  )
  const { rows } = await asked.sql(`select current_setting('datestyle') as dates, current_setting('app.note') as note`)
  expect(rows).toEqual([{ dates: 'ISO, DMY', note: 'a \\ b' }])
  await asked.close()
})

test('the options of a given URL are kept and take precedence', async () => {
  const url = new URL(inject('postgresUrl'))
  url.searchParams.set('options', '-c statement_timeout=30s')
  const settings = new Map([['statement_timeout', '0']])
  const asked = new Database({ url: withSettings(url.href, settings), max: 1 }, createLogger({ level: 'silent' }))
  expect((await asked.sql('show statement_timeout')).rows).toEqual([{ statement_timeout: '30s' }])
  await asked.close()
})

test('settings of a placement take precedence over changes of the server', async () => {
  await installation.database.sql(`do $$ begin execute format('alter database %I set lock_timeout = ''7s''', current_database());
    execute format('alter database %I set timezone = ''Asia/Tokyo''', current_database()); end $$`)
  const placement = {
    ...(await installation.prepare()),
    settings: { timezone: 'Europe/Berlin', statement_timeout: '33s' },
  }
  const { db } = await provisioned(await installation.open(placement), 'acme')
  const names = ['timezone', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
  expect(
    await raw(db, `select ${names.map((name) => `current_setting('${name}')`).join(` || ' ' || `)} as settings`),
  ).toEqual([{ settings: 'Europe/Berlin 33s 7s 0' }])
})

test('behind a pooler each scope sets the settings of the placement', async () => {
  const settings = {
    Work_Mem: '7MB',
    enable_seqscan: 'off',
    'app.region': 'eu',
    default_transaction_isolation: 'serializable',
  }
  const placement = { ...(await installation.prepare()), pooler: true, settings }
  const { db } = await provisioned(await installation.open(placement), 'globex')
  const names = ['work_mem', 'enable_seqscan', 'app.region', 'transaction_isolation']
  expect(
    await raw(db, `select ${names.map((name) => `current_setting('${name}', true)`).join(` || ' ' || `)} as settings`),
  ).toEqual([{ settings: '7MB off eu serializable' }])
})

test.each(['idle_session_timeout', 'local_preload_libraries', 'Tcp_User_Timeout'])(
  'rejects a placement behind a pooler with the setting %s, which has an effect only at the start of a session',
  (name) => {
    const config = (pooler: boolean) => ({
      database: { url: 'postgres://x' },
      placements: { main: { pooler, settings: { [name]: '1' } } },
    })
    expect(() => placementsOf(config(true))).toThrow(`placements.main.settings.${name}: has no effect behind a pooler`)
    expect(placementsOf(config(false))).toHaveProperty('main')
  },
)

test.each(['row_security', 'SEARCH_PATH', 'standard_conforming_strings', 'role', 'app.tenant_id'])(
  'rejects a placement with the setting %s, whose value is fixed',
  (name) => {
    const config = { database: { url: 'postgres://x' }, placements: { main: { settings: { [name]: 'off' } } } }
    expect(() => placementsOf(config)).toThrow(`placements.main.settings.${name}: isolation depends on this setting`)
  },
)

test.each(['row-security', 'a -c role', ''])(
  'rejects a placement with "%s", which is not the name of a setting',
  (name) => {
    const config = { database: { url: 'postgres://x' }, placements: { main: { settings: { [name]: 'off' } } } }
    expect(() => placementsOf(config)).toThrow(`placements.main.settings: "${name}" is not the name of a setting`)
  },
)

sessionSettings(FAST_KINDS.filter((kind) => kind !== 'sqlite-memory'))
