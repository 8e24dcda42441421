/** Tests profiles: `login`, their files, and the precedence of options, environment and the current profile. */
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type InProcess, inProcess } from '../in-process.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

const TOKEN = 'a-token-for-this-test'

const service = useProgram(inProcess, { TENANTRY_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'warn' })
let url: string
let home: string
let tenantry: InProcess

beforeAll(async () => {
  url = (await service.start(['serve']).says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/))[1] ?? ''
})
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'tenantry-home-'))
  tenantry = inProcess({ XDG_CONFIG_HOME: home })
})
afterEach(() => rm(home, { recursive: true, force: true }))

const login = (token = TOKEN, ...options: string[]) =>
  tenantry.start(['login', url, ...options], { stdin: `${token}\n` }).ended
const fileOf = (name: string) => join(home, 'tenantry', 'profiles', `${name}.json`)

describe('login', () => {
  test('stores URL and token for the user only, prints no token, and makes the profile current', async () => {
    const ended = await login()
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toContain(url)
    expect(ended.stdout).not.toContain(TOKEN)
    expect(JSON.parse(await readFile(fileOf('default'), 'utf8'))).toEqual({
      url: `${url}/admin/multitenancy`,
      token: TOKEN,
    })
    expect((await stat(fileOf('default'))).mode & 0o777).toBe(0o600)
    expect((await stat(join(home, 'tenantry', 'profiles'))).mode & 0o777).toBe(0o700)
    expect(await tenantry.run('tenant:list', '--json')).toMatchObject({ code: 0 })
  })

  test.each([
    ['a-wrong-token-of-a-user', 4, /E_UNAUTHORIZED/],
    ['', 2, /The token must be one line/],
    ['two\nlines', 2, /one line/],
  ])('stores nothing for the token %j', async (token, code, words) => {
    const ended = await login(token)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(words)
    expect(await readdir(home)).toEqual([])
  })

  test('rejects a name that could be a path', async () => {
    expect(await login(TOKEN, '--profile', '../other')).toMatchObject({ code: 2 })
    expect(await readdir(home)).toEqual([])
  })

  test('keeps all profiles of concurrent logins', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `service-${index}`)
    const ended = await Promise.all(names.map((name) => login(TOKEN, '--profile', name)))
    expect(ended.map(({ code }) => code)).toEqual(names.map(() => 0))
    const { stdout } = await tenantry.run('profile:list', '--json')
    expect(JSON.parse(stdout).map(({ profile }: { profile: string }) => profile)).toEqual(names)
    expect(JSON.parse(stdout).filter(({ current }: { current: boolean }) => current)).toHaveLength(1)
    expect((await readdir(join(home, 'tenantry', 'profiles'))).filter((file) => !file.endsWith('.json'))).toEqual([])
  })
})

test('profile:list, profile:use and profile:remove show, select and remove profiles, without tokens', async () => {
  await login(TOKEN, '--profile', 'production')
  await login(TOKEN, '--profile', 'staging')
  const list = async () => {
    const { stdout } = await tenantry.run('profile:list', '--json')
    expect(stdout).not.toContain(TOKEN)
    return JSON.parse(stdout)
  }
  const row = (profile: string, current: boolean) => ({ profile, url: `${url}/admin/multitenancy`, current })
  expect(await list()).toEqual([row('production', false), row('staging', true)])
  expect(await tenantry.run('profile:use', 'production')).toMatchObject({ code: 0 })
  expect(await list()).toEqual([row('production', true), row('staging', false)])
  expect(await tenantry.run('profile:use', 'unknown', '--json')).toMatchObject({ code: 3 })
  expect(await tenantry.run('profile:remove', 'production')).toMatchObject({ code: 0 })
  expect(await tenantry.run('profile:remove', 'production')).toMatchObject({ code: 3 })
  expect(await list()).toEqual([row('staging', false)])
  expect(await tenantry.run('profile:use', 'staging')).toMatchObject({ code: 0 })
  expect(await tenantry.run('profile:use')).toMatchObject({ code: 0 })
  expect(await list()).toEqual([row('staging', false)])
})

test.each([
  ['login', 'http://127.0.0.1:1'],
  ['profile:list'],
  ['profile:use'],
  ['profile:remove', 'default'],
  ['completion', 'bash'],
])('%s rejects --config, because it reads no configuration', async (...line) => {
  await login()
  const { code, stdout, stderr } = await tenantry.run(...line, '--config', '/missing.json')
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(`${line[0]} reads no configuration. Omit --app and --config.`)
  expect(await readdir(join(home, 'tenantry', 'profiles'))).toEqual(['default.json'])
})

describe('precedence', () => {
  const run = (env: NodeJS.ProcessEnv, ...options: string[]) =>
    tenantry.start(['tenant:list', '--json', ...options], { env, stdin: '' }).ended
  const nowhere = 'http://127.0.0.1:1'

  beforeEach(async () => {
    await login(TOKEN, '--profile', 'production')
    await login(TOKEN, '--profile', 'gone')
    await writeFile(fileOf('gone'), JSON.stringify({ url: nowhere, token: TOKEN }))
  })

  test('--profile precedes the current profile', async () => {
    expect(await run({})).toMatchObject({ code: 7 })
    expect(await run({}, '--profile', 'production')).toMatchObject({ code: 0 })
    expect(await run({}, '--profile', 'unknown')).toMatchObject({ code: 3 })
  })

  test('TENANTRY_URL and --profile together are rejected', async () => {
    const env = { TENANTRY_URL: nowhere, TENANTRY_TOKEN: TOKEN }
    expect(await run(env, '--profile', 'production')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Give either --profile or TENANTRY_URL'),
    })
  })

  test('TENANTRY_TOKEN precedes the token of the profile', async () => {
    expect(await run({ TENANTRY_TOKEN: 'a-wrong-token-of-a-user' }, '--profile', 'production')).toMatchObject({
      code: 4,
    })
  })

  test('the token of a profile is not sent to TENANTRY_URL', async () => {
    expect(await run({ TENANTRY_URL: url })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('TENANTRY_URL requires TENANTRY_TOKEN'),
    })
  })

  test('a local installation that the environment names precedes the current profile', async () => {
    const { TENANTRY_DATA_DIR, DATABASE_URL } = { TENANTRY_DATA_DIR: join(home, 'data'), DATABASE_URL: nowhere }
    expect((await run({ TENANTRY_DATA_DIR, DATABASE_URL })).stderr).toContain('DATABASE_URL')
  })
})

describe('a command that needs the database', () => {
  test.each<[string, string[], RegExp]>([
    ['the current profile', [], /\(.*, profile "production"\): it needs the database\. .*tenantry profile:use$/],
    ['--profile', ['--profile', 'production'], /it needs the database\. Omit --profile/],
  ])('is rejected with a remedy for %s', async (_, options, words) => {
    await login(TOKEN, '--profile', 'production')
    const { code, stdout, stderr } = await tenantry.run('tenant:migrate', ...options, '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({ code: 'E_NOT_REMOTE', detail: expect.stringMatching(words) })
  })
})

test.each([['serve'], ['dev'], ['openapi'], ['completion', 'bash'], ['profile:list'], ['profile:use', 'a']])(
  '%j rejects --profile, because it calls no remote service',
  async (...line) => {
    const { code, stdout, stderr } = await tenantry.run(...line, '--profile', 'production', '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'E_INVALID_REQUEST',
      detail: `${line[0]} calls no remote service. Omit --profile.`,
    })
  },
)

test('completion has the names of the profiles', async () => {
  await login(TOKEN, '--profile', 'production')
  await login(TOKEN, '--profile', 'staging')
  const { stdout } = await tenantry.run('complete', '--', 'tenant:list', '--profile', 'p')
  expect(stdout.split('\n').map((line) => line.split('\t')[0])).toContain('production')
  expect(stdout).not.toContain('staging')
})

describe('a file of a profile', () => {
  beforeEach(() => login())

  test('that other users can read is rejected', async () => {
    await chmod(fileOf('default'), 0o640)
    const { code, stderr } = await tenantry.run('tenant:list')
    expect(code).toBe(2)
    expect(stderr).toContain(`chmod 600 ${fileOf('default')}`)
  })

  test.each(['{', '{}', '{"url":"http://a.example"}', 'null'])(
    'with the content %s is rejected, and can be removed',
    async (text) => {
      await writeFile(fileOf('default'), text)
      const { code, stderr } = await tenantry.run('tenant:list')
      expect(code).toBe(2)
      expect(stderr).toContain('must have url and token')
      expect(await tenantry.run('profile:remove', 'default')).toMatchObject({ code: 0 })
    },
  )
})

test('without a directory for the configuration there are no profiles', async () => {
  const homeless = inProcess({})
  expect(await homeless.run('profile:list', '--json')).toMatchObject({ code: 0, stdout: '[]\n' })
  expect(await homeless.run('profile:use', 'any')).toMatchObject({ code: 2 })
})

test('the directory is that of XDG if it is absolute, otherwise .config in the home directory', async () => {
  for (const env of [{ HOME: home }, { HOME: home, XDG_CONFIG_HOME: 'relative' }]) {
    const program = inProcess(env)
    expect(await program.start(['login', url], { stdin: TOKEN }).ended).toMatchObject({ code: 0 })
    expect(await readdir(join(home, '.config', 'tenantry', 'profiles'))).toEqual(['default.json'])
  }
})
