/** Tests `serve`, and the commands that call a running service. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { VERSION } from '../../tenancy/version.ts'
import { dropWithRoles } from '../../testing/base/roles.ts'
import { createProgramDatabase, type Ended, inProcess, type Run } from '../in-process.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

const TOKEN = 'a-token-for-this-test'

const tenantry = useProgram(inProcess, { TENANTRY_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'warn' })
let service: Run
let url: string

beforeAll(async () => {
  service = tenantry.start(['serve'])
  await service.says(/Stop with Ctrl-C\./)
  url = (await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/))[1] ?? ''
  expect(await api('POST', '/tenants', '--data', '{ "id": "taken", "name": "Taken" }')).toMatchObject({ code: 0 })
})

const api = (...argv: string[]): Promise<Ended> => tenantry.run('api', ...argv, '--url', url)

test('serve prints its URLs, and not the configured admin token', async () => {
  const [text = ''] = await service.says(/^\nTenantry[\s\S]*Stop with Ctrl-C\.\n\n/)
  const { host, pathname } = new URL(tenantry.database.url)
  const known = text
    .replaceAll(url, '<url>')
    .replace(/code=\S+/, 'code=<code>')
    .replace(host + pathname, '<database>')
    .replace(VERSION, '<version>')
  expect(known).toMatchInlineSnapshot(`
    "
    Tenantry <version> is ready

      Console     <url>/admin/multitenancy/console#code=<code>   (signs you in once, within 10 minutes)
      Admin API   <url>/admin/multitenancy
      Probes      <url>/readyz
      Metrics     <url>/metrics
      Admin token as configured
      Data        PostgreSQL at <database>

    Try: curl -H "x-admin-token: $TENANTRY_ADMIN_TOKEN" <url>/admin/multitenancy/tenants
    Stop with Ctrl-C.

    "
  `)
  expect(text).not.toContain(TOKEN)
})

describe('status', () => {
  test('prints a table of the checks', async () => {
    const { code, stdout, stderr } = await tenantry.run('status', '--url', `${url}/`)
    expect(code).toBe(0)
    expect(stderr).toMatch(new RegExp(`^${url}: ok, up \\d+ s\n$`))
    expect(stdout).toMatch(
      /^check +status +durationMs\nbackoffice +pass +[\d.]+\nstore +pass +[\d.]+\ncircuits +pass +[\d.]+\nlogins +pass +[\d.]+\n$/,
    )
  })

  test('prints the report with --json', async () => {
    const { stdout } = await tenantry.run('status', '--url', url, '--json')
    expect(JSON.parse(stdout)).toMatchObject({ url, status: 'ok', checks: { backoffice: { status: 'pass' } } })
  })

  test.each<[string, Ended['code'], string[], RegExp]>([
    ['degraded', 6, [], /The service at \S+ is degraded[\s\S]*E_FINDINGS/],
    ['fail', 7, ['store'], /The service at \S+ is not ready[\s\S]*E_DEPENDENCY_UNAVAILABLE/],
  ])(
    'prints the report of a service with the result "%s", and ends with exit code %i',
    async (status, code, critical, words) => {
      const config = join(tenantry.directory, `${status}.json`)
      await writeFile(config, JSON.stringify({ health: { critical } }))
      const database = await createProgramDatabase(inject('postgresUrl')) // the other service has another store
      onTestFinished(() => dropWithRoles(inject('postgresUrl'), database))
      const store = { REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: database.url }
      const env = { ...store, TENANTRY_CONFIG: config, TENANTRY_ROLE: 'worker' }
      const other = tenantry.start(['serve'], { env, isAlone: true })
      const [, address = ''] = await other.says(/Probes +(http:\/\/127\.0\.0\.1:\d+)/)
      const ended = await tenantry.run('status', '--url', address, '--json')
      expect(ended.code).toBe(code)
      expect(JSON.parse(ended.stdout)).toMatchObject({ status, checks: { store: { status: 'fail' } } })
      expect(ended.stderr).toMatch(words)
      await other.interrupt()
    },
  )

  test.each<[Ended['code'], string, RegExp]>([
    [7, 'http://127.0.0.1:1', /The service at \S+ cannot be reached\. Check that it runs, and the URL in --url\.$/m],
    [2, 'not an address', /--url: "not an address" must be a URL such as/],
  ])('ends with exit code %i for the URL %s', async (code, address, words) => {
    const ended = await tenantry.run('status', '--url', address)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(words)
  })

  test('rejects a response that is not a readiness report', async () => {
    const config = join(tenantry.directory, 'elsewhere.json')
    await writeFile(config, JSON.stringify({ probes: { prefix: '/elsewhere' } }))
    const { code, stderr } = await tenantry.run('status', '--url', url, '--config', config)
    expect(code).toBe(7)
    expect(stderr).toContain('is not a readiness report')
  })
})

describe('api', () => {
  test('sends the token, for a path with or without the prefix', async () => {
    const created = await api('POST', '/tenants', '--data', '{ "id": "acme", "name": "Acme" }')
    expect(created).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(created.stdout)).toMatchObject({ id: 'acme' })
    for (const path of ['tenants/acme', '/tenants/acme', '/admin/multitenancy/tenants/acme']) {
      expect(JSON.parse((await api('get', path)).stdout)).toMatchObject({ name: 'Acme' })
    }
  })

  test('sends a file or standard input, and headers', async () => {
    const file = join(tenantry.directory, 'globex.json')
    await writeFile(file, '{ "id": "globex", "name": "Globex" }')
    const header = ['--header', 'idempotency-key: once', '--header', 'prefer:wait=10']
    const [first, again] = [
      await api('POST', '/tenants', '--data', `@${file}`, ...header),
      await api('POST', '/tenants', '--data', `@${file}`, ...header),
    ]
    expect(JSON.parse(first.stdout)).toMatchObject({ id: 'globex', status: 'active' })
    expect(again).toEqual(first)
    const input = { stdin: '{ "name": "Globex Corp" }' }
    const patched = await tenantry.start(['api', 'PATCH', '/tenants/globex', '--data', '-', '--url', url], input).ended
    expect(JSON.parse(patched.stdout)).toMatchObject({ name: 'Globex Corp' })
  })

  test('prints a response that is not JSON unchanged, and the status of a response without a body', async () => {
    const page = await api('GET', '/sign-in', '--header', 'accept: text/html')
    expect(page.stdout).toMatch(/^<!doctype html>/)
    const quoted = await api('GET', '/sign-in', '--header', 'accept: text/html', '--json')
    expect(JSON.parse(quoted.stdout)).toMatch(/^<!doctype html>/)
    expect(await api('HEAD', '/tenants')).toEqual({ code: 0, stdout: '', stderr: '200 OK\n' })
  })

  test.each<[Ended['code'], string[], RegExp]>([
    [2, ['POST', '/tenants', '--data', '{}'], /error: .*name/],
    [2, ['POST', '/tenants', '--data', 'nonsense'], /--data: must be JSON/],
    [2, ['POST', '/tenants', '--data', '@missing.json'], /--data: .*missing\.json/],
    [2, ['GET', '/tenants', '--header', 'nonsense'], /"nonsense" must have the form name:value/],
    [2, ['FETCH', '/tenants'], /"FETCH" must be one of GET/],
    [2, ['GET', 'http://elsewhere.example/tenants'], /--url/],
    [2, ['PATCH', '/tenants'], /This path takes/],
    [3, ['GET', '/tenants/initech'], /E_TENANT_NOT_FOUND/],
    [3, ['GET', '/nowhere'], /E_NOT_FOUND/],
    [4, ['GET', '/tenants', '--header', 'x-admin-token: wrong'], /E_UNAUTHORIZED/],
    [5, ['POST', '/tenants', '--data', '{ "id": "taken", "name": "Taken" }'], /E_TENANT_EXISTS/],
  ])('ends with exit code %i for the arguments %j', async (code, argv, words) => {
    const ended = await api(...argv)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(words)
  })

  test('prints the problem of the service with --json', async () => {
    const { code, stdout, stderr } = await api('GET', '/tenants/initech', '--json')
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({ status: 404, code: 'E_TENANT_NOT_FOUND', requestId: expect.any(String) })
  })

  test('ends with 7 if the service is unreachable, and with 2 if its URL is unknown', async () => {
    const unreachable = await tenantry.run('api', 'GET', '/tenants', '--url', 'http://127.0.0.1:1')
    expect(unreachable).toMatchObject({ code: 7, stdout: '' })
    const unknown = await tenantry.run('api', 'GET', '/tenants')
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('Give --url') })
  })
})

test('doctor --watch on a remote service prints an outage after its first report, and continues', async () => {
  const first = tenantry.start(['serve'])
  const [, address = ''] = await first.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/)
  const remote = inProcess({ TENANTRY_URL: address, TENANTRY_TOKEN: TOKEN })
  onTestFinished(() => remote.close())
  const watch = remote.start(['doctor', '--watch', '1', '--json'])
  await watch.says(/"status":/)
  await first.interrupt()
  const [before] = await watch.says(/[\s\S]*The service at \S+ cannot be reached/)
  const reports = before.match(/"status":/g) ?? []
  const second = tenantry.start(['serve'], { env: { PORT: new URL(address).port } })
  await second.says(/Stop with Ctrl-C\./)
  await watch.says(new RegExp(`(?:"status":[\\s\\S]*){${reports.length + 1}}`))
  expect(await watch.interrupt()).toMatchObject({ code: 130 })
  await second.interrupt()
  expect(await remote.run('doctor', '--watch', '1')).toMatchObject({ code: 7, stdout: '' })
})

describe('another service', () => {
  test('on the same port fails with a message', async () => {
    const { code, stdout, stderr } = await tenantry.start(['serve'], { env: { PORT: new URL(url).port } }).ended
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^error: port \d+ of 127\.0\.0\.1 is in use: .*\n$/)
  })

  test('with the role worker prints one JSON value without an API', async () => {
    const worker = tenantry.start(['dev', '--json'], { env: { TENANTRY_ROLE: 'worker' } })
    await worker.says(/\n}\n/)
    const { code, stdout } = await worker.interrupt()
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      adminApi: null,
      signIn: null,
      adminToken: null,
      probes: expect.stringMatching(/readyz$/),
    })
  })
})
