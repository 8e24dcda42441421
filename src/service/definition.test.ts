/** One schema validates definitions, files and the environment, and reports all faults together. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { directory as archivesIn } from '../drivers/archives/directory.ts'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { redisStore } from '../drivers/store/redis.ts'
import { createLogger } from '../kernel/base/logger.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import { createTestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { findApp } from './app-file.ts'
import { archivesOf } from './archives.ts'
import { resolveConfig } from './config.ts'
import { type Config, createTenancy, defineTenancy } from './definition.ts'
import { defaultOf, isolationDrivers } from './isolation-drivers.ts'
import { builtInSatellites, satellites, satellitesOn } from './satellites.ts'

const URL_OF_DATABASE = 'postgres://tenantry@localhost/tenantry'
const OTHER_KEY = Buffer.alloc(32, 9).toString('base64')
const parcels: Satellite<'parcels', object> = { name: 'parcels', summary: '', service: () => ({}) }

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenantry-definition-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
  vi.unstubAllEnvs()
})

const resolved = (content: unknown, env: Record<string, string> = {}) =>
  resolveConfig({ content, base: folder, isDefinition: true }, { env, directory: folder, satellites })

const faultsOf = async (promise: Promise<unknown>): Promise<string[]> => {
  const error = await promise.then(
    () => undefined,
    (reason: Error) => reason,
  )
  return (error?.message ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
}

test('a start reports all faults of definition and environment together, and opens nothing', async () => {
  vi.stubEnv('TENANTRY_ROLE', 'boss')
  const content: any = {
    database: { url: 'mysql://localhost/x' },
    isolation: ['schema-pg', { driver: 'database-pg', templat: 'base' }, { driver: 'magic' }, 7],
    store: { driver: 'redis' },
    backups: { directory: './a', archives: { driver: 'directory', path: './b' } },
    satellites: [parcels, {}],
    webhook: { maxAttempts: 3 },
    tenants: { retentionDays: -1 },
    migrations: './absent',
  }
  const definition = defineTenancy(content, { url: pathToFileURL(join(folder, 'tenancy.ts')).href })
  expect(await faultsOf(definition.start())).toEqual([
    'TENANTRY_ROLE: Invalid option: expected one of "all"|"api"|"worker"',
    'database.url: must be a URL such as postgres://user:password@host:5432/database',
    'store.url: required, or nodes, but not both',
    'isolation.1: Unrecognized key: "templat"',
    'isolation.2.driver: driver must be one of schema-pg, rowscope-pg, database-pg, sqlite-memory',
    'isolation.3: must be one of schema-pg, rowscope-pg, database-pg, sqlite-memory',
    'tenants.retentionDays: Too small: expected number to be >=0',
    'backups: must name one of archives, directory and s3',
    'satellites.1: must be a satellite',
    '(whole): Unrecognized key: "webhook"',
    `migrations: folder ${join(folder, 'absent')} not found; create it, or correct the path`,
    'database.url or DATABASE_URL: required',
    'appKey or TENANTRY_APP_KEY: required (openssl rand -base64 32)',
  ])
})

test('faults of the options of built-in satellites are reported with all others', async () => {
  const options: any = { webhooks: { maxAttemptz: 3, timeoutMs: 1 }, audit: { retentionDays: 'x' }, brandig: false }
  const content: any = { isolation: ['magic'], bogus: 1, satellites: builtInSatellites(options), migrations: './none' }
  expect(await faultsOf(resolved(content))).toEqual([
    'isolation.0: must be one of schema-pg, rowscope-pg, database-pg, sqlite-memory',
    '(whole): Unrecognized key: "bogus"',
    `migrations: folder ${join(folder, 'none')} not found; create it, or correct the path`,
    'audit.retentionDays: Invalid input: expected number, received string',
    'webhooks.timeoutMs: Too small: expected number to be >=100',
    'webhooks: Unrecognized key: "maxAttemptz"',
    expect.stringMatching(/^builtInSatellites: satellite "brandig" not found; the satellites are audit, billing, /),
  ])
  const kept = (builtInSatellites(options) as readonly Satellite[]).find(({ name }) => name === 'webhooks')
  expect(() => kept?.service({} as any, {} as any)).toThrow('webhooks.timeoutMs: Too small')
})

test('a key and its variable with different values are a fault that names both, without the values', async () => {
  const content = {
    database: { url: URL_OF_DATABASE },
    appKey: TEST_APP_KEY,
    oldAppKeys: [OTHER_KEY],
    store: redisStore({ url: 'redis://user:secret@one.example:6379/0' }),
    prefix: '/one',
    role: 'api',
    egress: { proxy: 'http://one.example:3128' },
  }
  const env = {
    DATABASE_URL: `${URL_OF_DATABASE}2`,
    TENANTRY_APP_KEY: OTHER_KEY,
    TENANTRY_OLD_APP_KEYS: TEST_APP_KEY,
    REDIS_URL: 'redis://two.example:6379/0',
    TENANTRY_PREFIX: '/two',
    TENANTRY_ROLE: 'worker',
    TENANTRY_EGRESS_PROXY: 'http://two.example:3128',
  }
  const words = 'have different values: remove one of them'
  expect((await faultsOf(resolved(content, env))).toSorted()).toEqual([
    `appKey and TENANTRY_APP_KEY ${words}`,
    `database.url and DATABASE_URL ${words}`,
    `egress.proxy and TENANTRY_EGRESS_PROXY ${words}`,
    `oldAppKeys and TENANTRY_OLD_APP_KEYS ${words}`,
    `prefix and TENANTRY_PREFIX ${words}`,
    `role and TENANTRY_ROLE ${words}`,
    `store and REDIS_URL ${words}`,
  ])
  const same = {
    DATABASE_URL: content.database.url,
    TENANTRY_APP_KEY: content.appKey,
    TENANTRY_OLD_APP_KEYS: OTHER_KEY,
    REDIS_URL: 'redis://other:secret@one.example/0',
    TENANTRY_PREFIX: '/one/',
    TENANTRY_ROLE: 'api',
    TENANTRY_EGRESS_PROXY: content.egress.proxy,
  }
  expect(await faultsOf(resolved(content, same))).toEqual([])
})

test('a value comes from the definition, then the environment, then the default', async () => {
  const env = { DATABASE_URL: URL_OF_DATABASE, TENANTRY_APP_KEY: TEST_APP_KEY, TENANTRY_ROLE: 'worker' }
  expect(await resolved({ prefix: '/one' }, env)).toMatchObject({
    databaseUrl: URL_OF_DATABASE,
    appKey: TEST_APP_KEY,
    role: 'worker',
    prefix: '/one',
  })
  expect(await resolved({ role: 'api' })).toMatchObject({ role: 'api', prefix: '/admin/multitenancy' })
})

describe('forms of collaborators', () => {
  const driversOf = async (isolation: Config['isolation'], more: Config = {}) => {
    const config = await resolved({ isolation, ...more })
    return {
      names: isolationDrivers(config.isolation).map(({ name }) => name),
      default: config.defaultIsolation ?? defaultOf(config.isolation),
    }
  }

  test('isolation is a list of names, options and values, or the record of a file', async () => {
    expect(await driversOf([schemaPg(), 'rowscope-pg', { driver: 'database-pg', template: 'base' }])).toEqual({
      names: ['schema-pg', 'rowscope-pg', 'database-pg'],
      default: undefined,
    })
    expect(await driversOf({ default: 'rowscope-pg', drivers: { 'sqlite-memory': {} } })).toEqual({
      names: ['schema-pg', 'rowscope-pg', 'database-pg', 'sqlite-memory'],
      default: 'rowscope-pg',
    })
    expect(await driversOf(['rowscope-pg', 'schema-pg'], { defaultIsolation: 'schema-pg' })).toMatchObject({
      default: 'schema-pg',
    })
    const twice = resolved({ isolation: { default: 'rowscope-pg' }, defaultIsolation: 'schema-pg' })
    expect(await faultsOf(twice)).toEqual(['defaultIsolation: also given as isolation.default; remove one of them'])
  })

  test('a backup storage is a value, its JSON form, or the key of a file; paths are relative to the definition', async () => {
    const identityOf = async (backups: Config['backups']) => {
      const config = await resolved({ backups })
      return config.backups && archivesOf(config.backups, { base: config.base, otherwise: '/otherwise' }).identity
    }
    const identity = `directory ${join(folder, 'backups')}`
    expect(await identityOf({ archives: archivesIn({ path: join(folder, 'backups') }) })).toBe(identity)
    expect(await identityOf({ archives: { driver: 'directory', path: './backups' } })).toBe(identity)
    expect(await identityOf({ directory: './backups' })).toBe(identity)
    expect(await identityOf({})).toBe('directory /otherwise')
    const s3 = { bucket: 'b', endpoint: 'https://s3.example', prefix: 'p' }
    expect(await identityOf({ archives: { driver: 's3', ...s3 } })).toBe(await identityOf({ s3 }))
    expect(await identityOf(undefined)).toBeUndefined()
  })

  test('keys of the ready-made service may be in service', async () => {
    expect(await resolved({ service: { prefix: '/admin', accessLog: false } })).toMatchObject({
      prefix: '/admin',
      accessLog: false,
      probes: { enabled: true },
    })
    expect(await faultsOf(resolved({ prefix: '/one', service: { prefix: '/one', plans: {} } }))).toEqual([
      'service: Unrecognized key: "plans"',
    ])
    expect(await faultsOf(resolved({ prefix: '/one', service: { prefix: '/one' } }))).toEqual([
      'service.prefix: also given as prefix; remove one of them',
    ])
  })
})

describe('satellites', () => {
  const namesOf = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name)

  test('a record enables all built-in satellites but those with false, a list exactly these', async () => {
    const all = namesOf(satellites).filter((name) => name !== 'billing')
    expect(namesOf(satellitesOn(await resolved({ satellites: {} })))).toEqual(all)
    const withoutSso = all.filter((name) => name !== 'sso')
    expect(namesOf(satellitesOn(await resolved({ satellites: { sso: false } })))).toEqual(withoutSso)
    expect(namesOf(satellitesOn(await resolved({ satellites: [parcels] })))).toEqual(['parcels'])
    expect(namesOf(satellitesOn(await resolved({})))).toEqual([])
    expect(namesOf(builtInSatellites({ sso: false, webhooks: { maxAttempts: 8 } } as object))).toEqual(withoutSso)
  })

  test('invalid options of a built-in satellite are a fault of the configuration', async () => {
    const define = { key: { type: 'string', writeOnly: 'true' } }
    const config = { ...(await resolved({ satellites: {}, settings: { define } })), file: '/app/tenantry.config.json' }
    expect(await faultsOf((async () => satellitesOn(config))())).toEqual([
      '/app/tenantry.config.json: settings.define.key.writeOnly: must be true or false',
    ])
  })

  test('options of a satellite have no effect next to a list, and are a fault', async () => {
    expect(await faultsOf(resolved({ satellites: [parcels], webhooks: { maxAttempts: 3 } }))).toEqual([
      'webhooks: has no effect, because satellites is a list; pass it to the satellite or builtInSatellites',
    ])
    const define = { 'upload.mb': { type: 'integer' } }
    const further = { settings: { define }, metrics: { retentionDays: 30, maxTenantSeries: 5 } }
    expect(await faultsOf(resolved({ satellites: [parcels], ...further }))).toEqual([
      'metrics.retentionDays: has no effect, because satellites is a list; pass it to the satellite or builtInSatellites',
      'settings: has no effect, because satellites is a list; pass it to the satellite or builtInSatellites',
    ])
    expect(await faultsOf(resolved({ satellites: [parcels], metrics: { maxTenantSeries: 5 } }))).toEqual([])
    expect(await faultsOf(resolved({ satellites: {}, webhooks: { maxAttempts: 3 }, ...further }))).toEqual([])
  })
})

test('a definition starts with the built-in satellites, a satellite of the host, and a role', async () => {
  const database = await createTestDatabase(inject('postgresUrl'))
  onTestFinished(() => dropWithRoles(inject('postgresUrl'), database))
  writeFileSync(join(folder, '0001_notes.sql'), '-- up\ncreate table notes (id int);')
  vi.stubEnv('DATABASE_URL', database.url)
  vi.stubEnv('TENANTRY_APP_KEY', TEST_APP_KEY)
  vi.stubEnv('PORT', '\\\\.\\pipe\\app') // the host's own
  vi.stubEnv('LOG_LEVEL', 'verbose')
  const logger = createLogger({ level: 'silent' })
  const module = { url: pathToFileURL(join(folder, 'tenancy.ts')).href }
  const all = [...builtInSatellites({ sso: false } as object), parcels]
  const definition = defineTenancy({ migrations: '.', isolation: ['schema-pg'], satellites: all, logger }, module)
  const tenancy = await definition.start({ role: 'api' })
  onTestFinished(() => tenancy.stop())
  const { rows } = await tenancy.kernel.database.sql('select role from multitenancy.processes')
  expect(rows).toEqual([{ role: 'api' }])
  expect(tenancy.parcels).toEqual({})
  expect(tenancy).not.toHaveProperty('sso')

  const other = await createTenancy({ isolation: [schemaPg()], migrations: '.', role: 'api', logger }, module)
  await other.stop()
  await tenancy.stop()
  for (const [level, used] of Object.entries({ verbose: 'info', INFO: 'info', error: 'error', '': 'warn' })) {
    vi.stubEnv('LOG_LEVEL', level)
    const own = await createTenancy({ isolation: [schemaPg()], migrations: '.', role: 'api' }, module)
    await own.stop()
    expect(own.kernel.log.level, level).toBe(used)
  }
})

test('without import.meta, relative paths of a definition are relative to the working directory, in commands as in programs', async () => {
  const source = JSON.stringify(pathToFileURL(join(import.meta.dirname, 'definition.ts')).href)
  const baseWith = async (name: string, module: string) => {
    const path = join(folder, name)
    const content = `import { defineTenancy } from ${source}\nexport default defineTenancy({}${module})`
    writeFileSync(path, content)
    return (await findApp('/elsewhere', path, {})).base
  }
  expect(await baseWith('without.ts', '')).toBe('/elsewhere')
  expect(await baseWith('with.ts', ', import.meta')).toBe(folder)
})
