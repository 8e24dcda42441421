/** Tests commands on a remote service: its selection, its errors, and all pages of a list. */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { DEFAULT_PREFIX } from '../../http/app.ts'
import { onServer } from '../../testing/base/database.ts'
import { type Ended, type InProcess, inProcess } from '../in-process.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

const TOKEN = 'a-token-for-this-test'

const tenantry = useProgram(inProcess, { TENANTRY_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'warn' })
let url: string
let remote: InProcess

beforeAll(async () => {
  const service = tenantry.start(['serve'])
  url = (await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/))[1] ?? ''
  remote = inProcess({ TENANTRY_URL: url, TENANTRY_TOKEN: TOKEN })
  expect(await tenantry.run('tenant:create', 'Known', '--id', 'known')).toMatchObject({ code: 0 })
  return () => remote.close()
})

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

async function serverWith(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  servers.push(server)
  await new Promise((resolve) => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const json = async (program: InProcess, ...argv: string[]): Promise<any> => {
  const { code, stdout, stderr } = await program.run(...argv, '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

test('commands change the remote service, and print what they print on the database', async () => {
  const created = await json(remote, 'tenant:create', 'Acme', '--id', 'acme', '--plan', 'pro')
  expect(created).toMatchObject({ id: 'acme', status: 'active', metadata: { plan: 'pro' } })
  const updated = await json(remote, 'tenant:update', 'acme', '--name', 'Acme & Co.', '--metadata', '{"plan":null}')
  expect(updated).toMatchObject({ name: 'Acme & Co.', metadata: {} })
  expect(await json(tenantry, 'tenant:show', 'acme')).toEqual(updated)
  expect((await remote.run('tenant:show', 'acme')).stdout).toBe((await tenantry.run('tenant:show', 'acme')).stdout)
})

describe('--all', () => {
  const COUNT = 450
  beforeAll(async () => {
    await onServer(tenantry.database.url, (database) =>
      database.sql(
        `insert into multitenancy.tenants
           (id, name, status, isolation, placement, locator, metadata, domains, created_at, updated_at)
         select 'many-' || n, 'Many', 'active', 'schema-pg', 'main', 't1_many_' || n, '{}', '{}', now(), now()
         from generate_series(1, ${COUNT}) n`,
      ),
    )
  })

  test.each(['the database', 'a remote service'])(
    'prints every item once on %s, with --json one on each line',
    async (where) => {
      const program = where === 'the database' ? tenantry : remote
      const { code, stdout } = await program.run('tenant:list', '--q', 'many-', '--all', '--json')
      expect(code).toBe(0)
      const ids = stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id)
      expect(new Set(ids).size).toBe(COUNT)
      expect(ids).toHaveLength(COUNT)
      const text = (await program.run('tenant:list', '--q', 'many-', '--all')).stdout.trimEnd().split('\n')
      expect(text.filter((line) => line.startsWith('id '))).toHaveLength(1)
      expect(text).toHaveLength(COUNT + 1)
    },
  )
})

test.each<[Ended['code'], string, string[]]>([
  [2, 'E_INVALID_REQUEST', ['tenant:create', 'Acme', '--isolation', 'unknown-driver']],
  [3, 'E_TENANT_NOT_FOUND', ['tenant:show', 'initech']],
  [3, 'E_TENANT_NOT_FOUND', ['tenant:show', 'No Id']],
  [3, 'E_TENANT_NOT_FOUND', ['tenant:show', '..']],
  [3, 'E_TENANT_NOT_FOUND', ['tenant:update', '../tenants/known', '--name', 'Other']],
  [3, 'E_WEBHOOK_NOT_FOUND', ['tenant:webhooks:show', 'known', '..']],
  [3, 'E_BACKUP_NOT_FOUND', ['tenant:backup:delete', 'known', 'newest', '--yes']],
  [3, 'E_PLAN_NOT_FOUND', ['tenant:plan:set', 'known', '..']],
  [5, 'E_TENANT_EXISTS', ['tenant:create', 'Acme', '--id', 'known']],
])('ends with exit code %i and %s, remotely and on the database, for %j', async (code, error, argv) => {
  for (const program of [remote, tenantry]) {
    const ended = await program.run(...argv, '--json')
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(JSON.parse(ended.stderr)).toMatchObject({ code: error })
  }
})

test.each([['tenant:migrate'], ['tenant:repl', 'acme'], ['backoffice:setup'], ['tenant:secrets:reencrypt']])(
  '%s ends with exit code 2, because it needs the database',
  async (...argv) => {
    const { code, stdout, stderr } = await remote.run(...argv, '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({ code: 'E_NOT_REMOTE', detail: expect.stringContaining('TENANTRY_URL') })
    expect((await remote.run('help', argv[0] ?? '')).stdout).toContain('Runs on the database only')
  },
)

describe('doctor', () => {
  test('prints the report of a service with an error, and ends with 6', async () => {
    const database = (text: string) => onServer(tenantry.database.url, (one) => one.sql(text))
    await database(`update multitenancy.tenants set locator = 't9_missing' where id = 'known'`)
    try {
      const { code, stdout, stderr } = await remote.run('doctor', '--json')
      expect(code, stderr).toBe(6)
      const report = JSON.parse(stdout)
      expect(report).toMatchObject({ status: 'error' })
      expect(report.checks).toContainEqual(expect.objectContaining({ severity: 'error', remedy: expect.any(String) }))
      expect(JSON.parse(stderr)).toMatchObject({
        code: 'E_FINDINGS',
        detail: expect.stringMatching(/^The doctor found problems \(errors: [1-9]\d*, warnings: \d+\)/),
      })
    } finally {
      await database(`update multitenancy.tenants set locator = 't1_known' where id = 'known'`)
    }
  })

  test.each(['--fix', '--prove', '--show-sql'])('%s needs the database', async (option) => {
    const { code, stdout, stderr } = await remote.run('doctor', option, '--json')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'E_NOT_REMOTE',
      detail: expect.stringContaining(`doctor ${option} cannot run on a remote service`),
    })
  })
})

test.each([
  [['tenant:show', 'No Id'], 'Tenant "No Id" not found.'],
  [['tenant:webhooks:show', 'known', '..'], 'Subscription ".." not found.'],
  [['tenant:webhooks:deliveries:show', 'known', '..', 'x'], 'Subscription ".." not found.'],
  [['tenant:backup:show', 'known', 'newest'], 'Backup "newest" not found.'],
  [['tenant:flags:show', 'known', 'a/b'], 'Flag "a/b" not found.'],
  [['dead-letter:show', 'newest'], 'Dead letter "newest" not found.'],
  [['tenant:impersonate:end', 'newest'], 'Impersonation "newest" not found.'],
])('%j names the kind of the object that does not exist', async (line, detail) => {
  const { code, stderr } = await remote.run(...line, '--json')
  expect(code).toBe(3)
  expect(JSON.parse(stderr).detail).toBe(detail)
})

test('status and api name the source of the URL of an unreachable service', async () => {
  const nowhere = inProcess({ TENANTRY_URL: 'http://127.0.0.1:1', TENANTRY_TOKEN: TOKEN })
  for (const line of [['status'], ['api', 'GET', '/tenants']]) {
    const { code, stderr } = await nowhere.run(...line)
    expect(code).toBe(7)
    expect(stderr).toContain('Check that it runs, and the URL in TENANTRY_URL.')
    expect(stderr).not.toContain('tenantry serve')
  }
})

test('status needs the prefix of the admin API only, and a valid token', async () => {
  const proxy = await serverWith(async ({ url: path = '', headers }, response) => {
    if (!path.startsWith(DEFAULT_PREFIX)) return response.writeHead(404).end()
    const answer = await fetch(url + path, { headers: { 'x-admin-token': String(headers['x-admin-token']) } })
    return response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  })
  const env = { TENANTRY_URL: proxy, TENANTRY_TOKEN: TOKEN }
  const { stdout } = await inProcess(env).run('status', '--json')
  expect(JSON.parse(stdout)).toMatchObject({ url: proxy, checks: { backoffice: { status: 'pass' } } })
  const wrong = await inProcess({ ...env, TENANTRY_TOKEN: 'a-wrong-token-of-a-user' }).run('status')
  expect(wrong).toMatchObject({ code: 4, stdout: '' })
})

test('the help of a command that can run remotely names no restriction', async () => {
  expect((await remote.run('help', 'tenant:list')).stdout).not.toContain('Runs on the database only')
})

test('a wrong token is unauthorized, and no output has the token', async () => {
  const wrong = inProcess({ TENANTRY_URL: url, TENANTRY_TOKEN: 'a-wrong-token-of-a-user' })
  const { code, stdout, stderr } = await wrong.run('tenant:list', '--json')
  expect({ code, stdout }).toEqual({ code: 4, stdout: '' })
  expect(JSON.parse(stderr)).toMatchObject({ code: 'E_UNAUTHORIZED' })
  expect(stderr).not.toContain('a-wrong-token')
})

test('completion has the ids of the remote service', async () => {
  const { code, stdout } = await remote.run('complete', '--', 'tenant:show', 'kn')
  expect(code).toBe(0)
  expect(stdout.split('\n').map((line) => line.split('\t')[0])).toContain('known')
})

test('a question names the remote service', async () => {
  const { code, stderr } = await remote.run('tenant:delete', 'known')
  expect(code).toBe(2)
  expect(stderr).toBe(
    `error: Without a terminal, give --yes to confirm: On ${url}${DEFAULT_PREFIX} (TENANTRY_URL): Delete Known (known)?\ncode:  E_INVALID_REQUEST\n`,
  )
})

describe('another server', () => {
  const run = (url: string) =>
    inProcess({ TENANTRY_URL: url, TENANTRY_TOKEN: TOKEN }).run('tenant:show', 'acme', '--json')

  test('receives neither a redirected request nor its token', async () => {
    const received: unknown[] = []
    const target = await serverWith(({ headers }, response) => {
      received.push(headers)
      response.end()
    })
    const redirecting = await serverWith((_, response) => response.writeHead(307, { location: target }).end())
    expect(await run(redirecting)).toMatchObject({ code: 7, stdout: '' })
    expect(received).toEqual([])
  })

  test.each<[string, RequestListener]>([
    ['a page', (_, response) => response.setHeader('content-type', 'text/html').end('<h1>Welcome</h1>')],
    ['other JSON', (_, response) => response.setHeader('content-type', 'application/json').end('{"id":"acme"}')],
    ['incomplete JSON', (_, response) => response.setHeader('content-type', 'application/json').end('{"id":')],
    ['nothing', ({ socket }) => socket.destroy()],
    ['an error page', (_, response) => response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>?</h1>')],
  ])('that responds with %s is an unavailable dependency', async (_, listener) => {
    const { code, stdout, stderr } = await run(await serverWith(listener))
    expect({ code, stdout }).toEqual({ code: 7, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  })

  test('that refuses connections is an unavailable dependency', async () => {
    const { code, stderr } = await run('http://127.0.0.1:1')
    expect(code).toBe(7)
    expect(JSON.parse(stderr).detail).toBe(
      'The service at http://127.0.0.1:1 cannot be reached. Check that it runs, and the URL in TENANTRY_URL.',
    )
  })
})

describe('the selection of the service', () => {
  test.each<[NodeJS.ProcessEnv, string[], RegExp]>([
    [{ TENANTRY_URL: 'http://127.0.0.1:1' }, [], /TENANTRY_URL requires TENANTRY_TOKEN/],
    [{ TENANTRY_TOKEN: TOKEN }, [], /TENANTRY_TOKEN requires TENANTRY_URL or a profile/],
    [
      { TENANTRY_URL: 'https://a.example', TENANTRY_TOKEN: 'a secret\nof two lines' },
      [],
      /TENANTRY_TOKEN must be one line/,
    ],
    [{ TENANTRY_URL: 'ftp://a.example', TENANTRY_TOKEN: TOKEN }, [], /TENANTRY_URL must be a URL/],
    [{ TENANTRY_URL: 'https://ann:secret@a.example', TENANTRY_TOKEN: TOKEN }, [], /without a password/],
    [
      { TENANTRY_URL: 'https://a.example', TENANTRY_TOKEN: TOKEN },
      ['--config', 'a.json'],
      /either --app or TENANTRY_URL/,
    ],
    [{}, ['--profile', 'a', '--config', 'a.json'], /either --app or --profile/],
  ])('with the environment %j and the options %j is rejected', async (env, options, words) => {
    const ended = await inProcess(env).run('tenant:list', ...options)
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(words)
    expect(ended.stderr).not.toContain('secret')
  })

  test('accepts the prefix of the admin API as the path of the URL', async () => {
    const paths: (string | undefined)[] = []
    const server = await serverWith((request, response) => {
      paths.push(request.url)
      response.setHeader('content-type', 'application/json').end('{"data":[],"nextCursor":null}')
    })
    for (const path of ['', '/', '/admin/tenants/']) {
      await inProcess({ TENANTRY_URL: server + path, TENANTRY_TOKEN: TOKEN }).run('tenant:list')
    }
    expect(paths).toEqual([
      `${DEFAULT_PREFIX}/tenants?limit=50`,
      `${DEFAULT_PREFIX}/tenants?limit=50`,
      '/admin/tenants/tenants?limit=50',
    ])
  })

  test('applies to status and api, which --url overrides', async () => {
    expect(JSON.parse((await remote.run('status', '--json')).stdout)).toMatchObject({ url, status: 'ok' })
    expect(await json(remote, 'api', 'GET', '/tenants?limit=1')).toMatchObject({ data: [{}] })
    const { code, stderr } = await tenantry.start(['api', 'GET', '/tenants', '--url', 'http://127.0.0.1:1'], {
      env: { TENANTRY_URL: url, TENANTRY_TOKEN: TOKEN },
    }).ended
    expect(code).toBe(7)
    expect(stderr).toContain(
      'The service at http://127.0.0.1:1 cannot be reached. Check that it runs, and the URL in --url.',
    )
  })
})
