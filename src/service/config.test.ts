/** Errors of a configuration: all of them are reported together, and nothing is opened. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type ConfigSource, loadConfig } from './config.ts'
import { satellites } from './main.ts'

const TOKEN = 'a-token-for-the-tests'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'tenantry-config-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const load = (content: unknown, env: ConfigSource['env'] = {}) => {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  writeFileSync(join(directory, 'tenantry.config.json'), text)
  return loadConfig({ directory, env, satellites })
}

/** Each error as a line, with the file as `<file>`. */
const faultsOf = async (loading: Promise<unknown>): Promise<string[]> => {
  const error = await loading.then(
    () => undefined,
    (reason: Error) => reason,
  )
  const [, ...lines] = (error?.message ?? '').split('\n')
  return lines.map((line) => line.trim().replaceAll(join(directory, 'tenantry.config.json'), '<file>'))
}

test('reports errors of the environment, of keys, between keys and of production together', async () => {
  const content = {
    prefix: 'nowhere',
    adminTokens: [
      { name: 'ops', token: TOKEN },
      { name: 'ops', token: TOKEN },
    ],
    isolation: { default: 'magic' },
    migrations: './absent',
    health: { critical: ['backoffice', 'weather'] },
    satellites: { brandig: false },
  }
  expect(await faultsOf(load(content, { PORT: 'many', NODE_ENV: 'production' }))).toEqual([
    'PORT: must be a port from 0 to 65535',
    '<file>: prefix: must be a path such as /admin/tenants',
    '<file>: isolation.default: must be one of schema-pg, rowscope-pg, database-pg, sqlite-memory',
    '<file>: adminTokens: several tokens are named "ops"',
    `<file>: adminTokens: the token of "ops" is also the token of another name`,
    `<file>: migrations: folder ${join(directory, 'absent')} not found; create it, or correct the path`,
    '<file>: satellites: satellite "brandig" not found; the satellites are auditLogs, billing, branding, featureFlags, impersonation, metrics, quotas, settings, sso, webhooks',
    '<file>: health.critical: check "weather" not found; the checks are backoffice, store, circuits, logins',
    'DATABASE_URL: required in production',
    'TENANTRY_APP_KEY: required in production (openssl rand -base64 32)',
  ])
})

test('rejects an unknown mode of TLS and a missing file in the URL of a server', async () => {
  const url = (query: string) => `postgres://tenantry@localhost/tenantry?${query}`
  const env = { DATABASE_URL: url('sslmode=verify_full') }
  const other = url('sslmode=verify-full&sslrootcert=/absent/ca.crt&sslkey=/absent/client.key')
  expect(await faultsOf(load({ placements: { other: { url: other } } }, env))).toEqual([
    'DATABASE_URL: sslmode "verify_full" must be one of verify-full, verify-ca, require, prefer, no-verify, disable',
    '<file>: placements.other.url: sslrootcert: file /absent/ca.crt not found or not readable',
    '<file>: placements.other.url: sslkey: file /absent/client.key not found or not readable',
  ])
  await expect(load({}, { DATABASE_URL: url('sslmode=verify-full') })).resolves.toBeDefined()
})

test('rejects a file whose content is no object', async () => {
  for (const content of ['null', '[]', '7']) {
    expect(await faultsOf(load(content))).toEqual([expect.stringMatching(/^<file>: \(whole\): .*expected object/)])
  }
})

test('reports an unreadable file as one error, together with the others', async () => {
  expect(await faultsOf(load('{ nonsense', { PORT: '70000', NODE_ENV: 'production' }))).toEqual([
    'PORT: must be a port from 0 to 65535',
    expect.stringMatching(/^<file>: .*JSON/),
    'DATABASE_URL: required in production',
    'TENANTRY_APP_KEY: required in production (openssl rand -base64 32)',
  ])
  const file = 'absent.ts'
  expect(await faultsOf(loadConfig({ directory, env: { HOST: '', LOG_LEVEL: 'loud' }, file }))).toEqual([
    expect.stringMatching(/^LOG_LEVEL: /),
    `${join(directory, file)}: file not found`,
  ])
})

test('an error of JSON has no content of the file', async () => {
  for (const text of [`{ "appKey": "${TOKEN}" x}`, `{ "appKey": ${TOKEN} }`, `{ "a": 1,\n "appKey": "${TOKEN}`]) {
    const faults = await faultsOf(load(text))
    expect(faults).toEqual([expect.stringMatching(/^<file>: not valid JSON( \(line \d+ column \d+\))?$/)])
  }
})

test('rejects a malformed package.json, and one whose tenantry.app is not a path', async () => {
  const manifest = join(directory, 'package.json')
  for (const [text, fault] of [
    ['{ "tenantry": { "app": ["./tenancy.ts"] } }', 'tenantry.app: must be a path such as ./src/tenancy.ts'],
    ['{ "tenantry": { "app": "./tenancy.ts" }', 'not valid JSON'],
  ] as const) {
    writeFileSync(manifest, text)
    expect(await faultsOf(load({}))).toEqual([expect.stringContaining(`${manifest}: ${fault}`)])
  }
  writeFileSync(manifest, 'null')
  await expect(load({})).resolves.toBeDefined()
})

test('rejects a token of the environment that a name in the file has, too', async () => {
  const faults = faultsOf(load({ adminTokens: [{ name: 'ops', token: TOKEN }] }, { TENANTRY_ADMIN_TOKEN: TOKEN }))
  expect(await faults).toEqual([`<file>: adminTokens: the token of "ops" is also the token of another name`])
  expect(await faultsOf(load({}, { NODE_ENV: 'production' }))).toContain(
    'TENANTRY_ADMIN_TOKEN or adminTokens: required in production',
  )
})

test('resolves paths of a valid file relative to the file', async () => {
  mkdirSync(join(directory, 'migrations'))
  const config = await load(
    { prefix: '/one/', migrations: './migrations', probes: { prefix: '/probes/' }, satellites: { branding: false } },
    { PORT: '0', TENANTRY_CONFIG: '' },
  )
  expect(config).toMatchObject({
    prefix: '/one',
    probes: { enabled: true, prefix: '/probes' },
    port: 0,
    migrations: join(directory, 'migrations'),
    dataDirectory: join(directory, '.tenantry'),
  })
})

test('example plans are only for an installation without a file, and a file may have no backups', async () => {
  const none = await loadConfig({ directory, env: {}, satellites })
  expect(Object.keys(none.plans?.definitions ?? {})).toEqual(['free', 'pro', 'enterprise'])
  expect(none).toMatchObject({ satellites: {}, backups: { keep: 7 } })
  const short = await load({})
  expect(short.plans).toBeUndefined()
  expect(short).toMatchObject({ satellites: {}, backups: { keep: 7 } })
  expect((await load({ backups: false })).backups).toBe(false)
  expect(await faultsOf(load({ backups: { kept: 3 } }))).toEqual([expect.stringContaining('backups: Unrecognized key')])
  expect(await faultsOf(load({ backups: true }))).toEqual([expect.stringContaining('backups: Invalid input')])
})

test('a stop drains for 5 s in production, and not at all otherwise, unless `health.drainSeconds` is set', async () => {
  const production = {
    NODE_ENV: 'production',
    DATABASE_URL: 'postgres://localhost/tenantry',
    TENANTRY_APP_KEY: Buffer.alloc(32, 7).toString('base64'),
    TENANTRY_ADMIN_TOKEN: TOKEN,
  }
  expect(await load({})).toMatchObject({ isProduction: false, health: { critical: [], drainSeconds: 0 } })
  expect(await load({}, production)).toMatchObject({ isProduction: true, health: { critical: [], drainSeconds: 5 } })
  const health = { critical: ['backoffice'], drainSeconds: 0 }
  expect(await load({ health }, production)).toMatchObject({ health })
  expect(await faultsOf(load({ health: { drainSeconds: -1 } }))).toEqual([
    expect.stringMatching(/^<file>: health\.drainSeconds: /),
  ])
})

test('rejects an allowed host with a port', async () => {
  const allowedHosts = ['status.example.com', '[2001:db8::1]', '*']
  expect(await load({ allowedHosts })).toMatchObject({ allowedHosts })
  expect((await load({})).allowedHosts).toBeUndefined()
  expect(await faultsOf(load({ allowedHosts: ['status.example.com:4000'] }))).toEqual([
    '<file>: allowedHosts.0: must be a host name without a port, such as status.example.com',
  ])
})

test('accepts wider egress for development, and rejects it in production', async () => {
  const content = (egress: object) => ({ egress, adminTokens: [{ name: 'ops', token: TOKEN }] })
  const both = { allowPrivateNetworks: true, allowHttp: true }
  expect(await load(content(both))).toMatchObject({ egress: both })
  expect(await load({})).toMatchObject({ egress: { allowPrivateNetworks: false, allowHttp: false } })
  const env = {
    NODE_ENV: 'production',
    DATABASE_URL: 'postgres://localhost/tenantry',
    TENANTRY_APP_KEY: Buffer.alloc(32, 7).toString('base64'),
  }
  expect(await load(content({ allowPrivateNetworks: false, allowHttp: false }), env)).toBeDefined()
  const refused = (key: string) => `<file>: egress.${key}: for development only, rejected in production`
  expect(await faultsOf(load(content({ allowHttp: true }), env))).toEqual([refused('allowHttp')])
  expect(await faultsOf(load(content(both), env))).toEqual([refused('allowPrivateNetworks'), refused('allowHttp')])
  expect(await faultsOf(load(content({ allowLoopback: true })))).toEqual([
    expect.stringMatching(/egress: .*allowLoopback/),
  ])
})

test('takes the egress proxy from the file or the environment, and reports an invalid one without its value', async () => {
  const content = { egress: { proxy: 'http://us:one@proxy.example:3128' } }
  expect(await load(content)).toMatchObject(content)
  const proxy = 'https://us:two@proxy.example'
  expect(await load({}, { TENANTRY_EGRESS_PROXY: proxy })).toMatchObject({ egress: { proxy } })
  expect(await faultsOf(load(content, { TENANTRY_EGRESS_PROXY: proxy }))).toEqual([
    '<file>: egress.proxy and TENANTRY_EGRESS_PROXY have different values: remove one of them',
  ])
  expect((await load({}, { HTTPS_PROXY: proxy, ALL_PROXY: proxy })).egress.proxy).toBeUndefined()
  const wrong = 'socks5://us:secret@proxy.example'
  expect(await faultsOf(load({ egress: { proxy: wrong } }, { TENANTRY_EGRESS_PROXY: wrong }))).toEqual([
    'TENANTRY_EGRESS_PROXY: must be a URL such as http://user:password@host:3128',
    '<file>: egress.proxy: must be a URL such as http://user:password@host:3128',
  ])
})

test('rejects settings of placements that isolation depends on', async () => {
  const placements = { main: { settings: { Row_Security: 'off', statement_timeout: '30s', role: 'none' } } }
  expect(await faultsOf(load({ placements }))).toEqual([
    '<file>: placements.main.settings.Row_Security: isolation depends on this setting, and its value is fixed; remove it',
    '<file>: placements.main.settings.role: isolation depends on this setting, and its value is fixed; remove it',
  ])
})

test('limits impersonations to one hour, and their default to the configured maximum', async () => {
  expect(await load({})).toMatchObject({ impersonation: { maxSeconds: 3_600 } })
  const impersonation = { maxSeconds: 600, defaultSeconds: 300 }
  expect(await load({ impersonation })).toMatchObject({ impersonation })
  expect(await faultsOf(load({ impersonation: { maxSeconds: 3_601 } }))).toEqual([
    expect.stringMatching(/^<file>: impersonation\.maxSeconds: /),
  ])
  expect(await faultsOf(load({ impersonation: { maxSeconds: 60, defaultSeconds: 61 } }))).toEqual([
    '<file>: impersonation.defaultSeconds: must not exceed maxSeconds',
  ])
})

test('rejects limits of webhooks that a worker cannot keep', async () => {
  const webhooks = { maxAttempts: 8, timeoutMs: 5_000, retentionDays: 7, bridge: false, concurrency: 64, claim: 200 }
  expect(await load({ webhooks })).toMatchObject({ webhooks: { ...webhooks, perSubscription: 16 } })
  const wrong = { maxAttempts: 21, timeoutMs: 99, retentionDays: 0, bridge: 'no', concurrency: 0, retries: 3 }
  const faults = await faultsOf(load({ webhooks: wrong }))
  for (const key of Object.keys(wrong))
    expect(
      faults.filter((fault) => fault.includes(key)),
      key,
    ).toHaveLength(1)
})
