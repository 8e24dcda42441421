/** The demo of the real program: sample tenants by `--demo` and by the button's request, once, and not in production. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Program, programWith } from '../../cli/program.fixture.ts'
import { eventually } from '../../testing/base/tenancy.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 })

const WAIT_MS = 60_000
let directory: string
let tenantry: Program

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-demo-'))
  tenantry = programWith({ PORT: '0', LOG_LEVEL: 'warn' })
})

afterEach(async () => {
  await tenantry.killAll()
  await eventually(() => rm(directory, { recursive: true, force: true }), WAIT_MS)
})

async function serve(...options: string[]) {
  const child = tenantry.start(['serve', ...options], { cwd: directory, stdin: '' })
  const [block] = await child.says(/Tenantry[\s\S]*Stop with Ctrl-C\./)
  const [, api = ''] = block.match(/Admin API +(\S+)/) ?? []
  const [, token = ''] = block.match(/Admin token (\S+)/) ?? []
  const call = (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = { 'x-admin-token': token },
  ) =>
    fetch(`${api}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: body === undefined ? null : JSON.stringify(body),
    })
  const data = async (path: string): Promise<any[]> =>
    ((await (await call('GET', path)).json()) as { data: any[] }).data
  const stop = () => {
    child.process.kill('SIGTERM')
    return child.ended
  }
  return { child, api, origin: new URL(api).origin, call, data, stop }
}

test('--demo creates tenants, flags, deliveries, a transfer and audit entries, and a second run adds nothing', async () => {
  const service = await serve('--demo')
  const { call, data } = service
  const tenants = await data('/tenants?limit=100')
  const statusOf = (id: string) => tenants.find((tenant) => tenant.id === id)?.status
  expect(tenants.length).toBeGreaterThanOrEqual(12)
  expect(['globex', 'globex-staging', 'soylent'].map(statusOf)).toEqual(['active', 'active', 'suspended'])
  expect(tenants.find(({ id }) => id === 'wonka').maintenance).toMatchObject({ retryAfterSeconds: 600 })
  expect(tenants.find(({ id }) => id === 'stark').isolation).toBe('rowscope-pg')
  expect(await data('/feature-flags')).toContainEqual(expect.objectContaining({ key: 'new-editor', on: 1 }))
  await eventually(async () => {
    expect(await data('/tenant-quotas?quota=api_calls&above=0.8')).toContainEqual(
      expect.objectContaining({ tenantId: 'umbrella', usage: 100_000, limit: 100_000 }),
    )
    const deliveries = await data('/webhook-deliveries?limit=100')
    const of = (tenantId: string) =>
      deliveries.filter((one) => one.tenantId === tenantId && one.url?.includes('/demo-receiver/'))
    expect(of('globex')).toContainEqual(expect.objectContaining({ state: 'delivered', lastStatus: 200 }))
    expect(of('initech')).toContainEqual(expect.objectContaining({ state: 'retry_scheduled', lastStatus: 503 }))
    expect(of('umbrella')).toContainEqual(expect.objectContaining({ state: 'failed', lastStatus: 410 }))
  }, WAIT_MS)
  const kinds = (await data('/transfers')).map(({ kind, state }) => `${kind} ${state}`)
  expect(kinds).toEqual(expect.arrayContaining(['backup completed', 'clone completed', 'move completed']))
  const changes = async () => (await data('/audit-logs?limit=200')).map(({ id }) => id).length
  const before = await changes()

  expect(await (await call('POST', '/demo')).json()).toEqual({ created: 0, rejected: [] })
  const { code, stdout, stderr } = await service.stop()
  expect(code).toBe(0)
  expect(stdout + stderr).not.toContain('request completed')
  const again = await serve('--demo')
  expect((await again.data('/tenants?limit=100')).length).toBe(tenants.length)
  const added = (await again.data('/audit-logs?limit=200')).filter(({ actor }) => actor.type === 'admin').length
  expect(added).toBeLessThanOrEqual(before)
  await again.stop()
})

test('the tenants of the demo have the plans that the configuration of the service has', async () => {
  const plans = { defaultPlan: 'small', definitions: { small: { limits: {} }, pro: { limits: {} } } }
  await writeFile(join(directory, 'tenantry.config.json'), JSON.stringify({ plans }))
  const { call, data, stop } = await serve()
  const result = (await (await call('POST', '/demo')).json()) as { created: number }
  expect(result.created).toBeGreaterThanOrEqual(12)
  const created = await data('/tenants?limit=100')
  expect([...new Set(created.map(({ metadata }) => metadata.plan))].toSorted()).toEqual(['pro', undefined])
  await stop()
})

test('the request of the button needs a token with permissions, and its receiver opens no other target', async () => {
  const { call, origin, stop } = await serve()
  const subscribe = (url: string) => call('POST', '/tenants/hooli/webhooks', { url, events: ['*'] })
  const token = (await (await call('POST', '/tokens', { name: 'reader', may: ['read'] })).json()) as { token: string }
  const refused = async (headers: Record<string, string>) => (await call('POST', '/demo', undefined, headers)).status
  expect(await refused({})).toBe(401)
  expect(await refused({ 'x-admin-token': token.token })).toBe(403)

  expect(await (await call('POST', '/demo')).json()).toEqual({ created: 12, rejected: [] })
  for (const path of ['/admin/multitenancy/tenants', '/livez', '/demo-receiver/200?a', '/demo-receiver/../livez']) {
    expect((await subscribe(`${origin}${path}`)).status, path).toBe(422)
  }
  expect((await subscribe(`${origin}/demo-receiver/200`)).status).toBe(201)
  await stop()
})

test('production rejects --demo before anything is opened', async () => {
  const env = {
    NODE_ENV: 'production',
    DATABASE_URL: 'postgres://none@127.0.0.1:1/none',
    TENANTRY_APP_KEY: Buffer.alloc(32, 7).toString('base64'),
    TENANTRY_ADMIN_TOKEN: 'adm_f3kR8sQ2xL0v_demo',
  }
  const ended = await tenantry.start(['serve', '--demo'], { cwd: directory, env, stdin: '' }).ended
  expect(ended).toMatchObject({ code: 2, stdout: '' })
  expect(ended.stderr).toContain('--demo: for development only, rejected in production')
})
