/** Tests changes on a remote service whose response is lost on the way. A proxy cuts connections of HTTP requests. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type FaultKind, type FaultProxy, startFaultProxy } from '../../../test/support/fault-proxy.ts'
import { type InProcess, inProcess } from '../in-process.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

const TOKEN = 'a-token-for-this-test'
const TENANTS = '/admin/multitenancy/tenants'

const tenantry = useProgram(
  inProcess,
  { TENANTRY_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'warn' },
  {
    egress: { allowPrivateNetworks: true, allowHttp: true },
  },
)
let proxy: FaultProxy
let remote: InProcess

beforeAll(async () => {
  const service = tenantry.start(['serve'])
  const [, url = ''] = await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/)
  proxy = await startFaultProxy(url)
  const through = proxy.through(url).replace(/\/$/, '')
  remote = inProcess({ TENANTRY_URL: through, TENANTRY_TOKEN: TOKEN })
  expect(await tenantry.run('tenant:create', 'Known', '--id', 'known')).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await remote?.close()
  await proxy?.close()
})

async function listening(server: Server): Promise<{ server: Server; url: string }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const entriesOf = async (id: string, action: string): Promise<unknown[]> => {
  const { code, stdout } = await tenantry.run('tenant:audit:list', id, '--action', action, '--json')
  expect(code).toBe(0)
  return JSON.parse(stdout).data
}
const statusOf = async (id: string): Promise<string> =>
  JSON.parse((await tenantry.run('tenant:show', id, '--json')).stdout).status

describe('a POST', () => {
  test.each<[string, FaultKind]>([
    ['lost-response', 'lose the answer'],
    ['lost-request', 'cut the line'],
  ])('is sent once more, and has one effect (%s)', async (id, kind) => {
    const fault = proxy.at(`POST ${TENANTS} `, kind)
    const { code, stdout, stderr } = await remote.run('tenant:create', 'Lost', '--id', id, '--json')
    expect({ code, stderr, hasHappened: fault.hasHappened }).toEqual({ code: 0, stderr: '', hasHappened: true })
    expect(JSON.parse(stdout)).toMatchObject({ id, status: 'active' })
    expect(await entriesOf(id, 'tenants.create')).toHaveLength(1)
  })

  test('without a response to both attempts has an unknown outcome', async () => {
    const faults = [1, 2].map(() => proxy.at(`POST ${TENANTS} `, 'lose the answer'))
    const { code, stdout, stderr } = await remote.run('tenant:create', 'Twice', '--id', 'twice', '--json')
    expect({ code, stdout, faults: faults.map(({ hasHappened }) => hasHappened) }).toEqual({
      code: 7,
      stdout: '',
      faults: [true, true],
    })
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'E_OUTCOME_UNKNOWN',
      detail: expect.stringMatching(/unknown whether .* tenantry tenant:audit:list --action tenants\.create$/),
    })
    expect(await entriesOf('twice', 'tenants.create')).toHaveLength(1)
  })

  test('does not show a secret that was in the lost response', async () => {
    const fault = proxy.at(`POST ${TENANTS}/known/webhooks `, 'lose the answer')
    const line = ['tenant:webhooks:create', 'known', 'http://127.0.0.1:1/hooks', '--event', '*', '--json'] as const
    const { code, stdout, stderr } = await remote.run(...line)
    expect({ code, hasHappened: fault.hasHappened }).toEqual({ code: 0, hasHappened: true })
    expect(JSON.parse(stdout)).not.toHaveProperty('secret')
    expect(stderr).toBe('The secret was in a lost response and is not shown again. Replace it, or create another.\n')
    expect(await entriesOf('known', 'webhooks.create')).toHaveLength(1)
  })

  test('of the command api is sent once more, with the given key if there is one', async () => {
    for (const [name, header] of [
      ['By api', []],
      ['By key', ['--header', 'Idempotency-Key: a-key']],
    ] as const) {
      const fault = proxy.at(`POST ${TENANTS} `, 'lose the answer')
      const data = JSON.stringify({ id: name.toLowerCase().replace(' ', '-'), name })
      const ended = await remote.run('api', 'POST', '/tenants', '--data', data, ...header, '--json')
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(JSON.parse(ended.stdout)).toMatchObject({ name })
      expect(fault.hasHappened).toBe(true)
    }
  })
})

describe('a change by PUT', () => {
  afterEach(() => tenantry.run('tenant:activate', 'known'))

  test.each<[FaultKind, string]>([
    ['cut the line', 'active'],
    ['lose the answer', 'suspended'],
  ])('after "%s" has an unknown outcome, and is not repeated', async (kind, status) => {
    const before = (await entriesOf('known', 'tenants.suspend')).length
    const fault = proxy.at(`PUT ${TENANTS}/known/suspend `, kind)
    const { code, stdout, stderr } = await remote.run('tenant:suspend', 'known', '--json')
    expect({ code, stdout, hasHappened: fault.hasHappened }).toEqual({ code: 7, stdout: '', hasHappened: true })
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'E_OUTCOME_UNKNOWN',
      detail: expect.stringContaining('tenantry tenant:audit:list known --action tenants.suspend'),
    })
    expect(await statusOf('known')).toBe(status)
    expect((await entriesOf('known', 'tenants.suspend')).length - before).toBe(status === 'active' ? 0 : 1)
  })

  test('to a port without a service was not made', async () => {
    const closed = await listening(createServer())
    closed.server.close()
    const nowhere = inProcess({ TENANTRY_URL: closed.url, TENANTRY_TOKEN: TOKEN })
    const { code, stderr } = await nowhere.run('tenant:suspend', 'known', '--json')
    expect(code).toBe(7)
    expect(JSON.parse(stderr)).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  })
})

test('a read without a response is an unavailable dependency, not an unknown outcome', async () => {
  const fault = proxy.at(`GET ${TENANTS}/known `, 'lose the answer')
  const { code, stderr } = await remote.run('tenant:show', 'known', '--json')
  expect({ code, hasHappened: fault.hasHappened }).toEqual({ code: 7, hasHappened: true })
  expect(JSON.parse(stderr)).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
})

test('a repeated POST whose first attempt is still running has an unknown outcome', async () => {
  const keys: unknown[] = []
  const service = createServer(({ headers, socket }, response) => {
    keys.push(headers['idempotency-key'])
    if (keys.length === 1) return socket.destroy()
    response.writeHead(409, { 'content-type': 'application/problem+json' })
    response.end(
      JSON.stringify({ code: 'E_IDEMPOTENCY_IN_PROGRESS', title: 'Running', status: 409, detail: 'Running.' }),
    )
  })
  const { server, url } = await listening(service)
  try {
    const program = inProcess({ TENANTRY_URL: url, TENANTRY_TOKEN: TOKEN })
    const { code, stderr } = await program.run('tenant:create', 'Acme', '--json')
    expect(code).toBe(7)
    expect(JSON.parse(stderr)).toMatchObject({ code: 'E_OUTCOME_UNKNOWN' })
    expect(keys).toEqual([expect.stringMatching(/^[\da-f-]{36}$/), keys[0]])
  } finally {
    server.close()
  }
})
