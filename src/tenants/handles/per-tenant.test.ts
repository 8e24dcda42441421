/** Lifetime of clients per tenant: build, use and disposal. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { lazy } from '../../../test/support/lazy.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { eventually } from '../../testing/index.ts'
import type { Tenant } from './handle.ts'
import type { PerTenant } from './per-tenant.ts'

interface Client {
  readonly tenant: Tenant
  /** The tenant of the context during the build. */
  readonly builtFor: string | null | undefined
  isOpen: boolean
}

const IDS = ['acme', 'globex', 'initech']
const logged: string[] = []
let environment: TestTenancy<[]>
let built: Client[]
beforeAll(async () => {
  const write = (line: string) => void logged.push(line)
  environment = await testTenancy(inject('postgresUrl'), { logger: createLogger({ level: 'warn', write }) })
  for (const id of IDS) await installed(environment.tenancy, { id, name: id })
})
afterAll(() => environment.end())
beforeEach(() => {
  built = []
})

const openClients = (max: number, tenancy = environment.tenancy): PerTenant<Client> =>
  tenancy.perTenant(
    async (tenant) => {
      await tenant.pool.query('select 1')
      const client = { tenant, builtFor: currentContext().tenantId, isOpen: true }
      built.push(client)
      return client
    },
    {
      max,
      dispose: (client) => {
        client.isOpen = false
      },
    },
  )
const isOpen = () => built.map(({ tenant, isOpen }) => [tenant.id, isOpen])

/** Starts a use that lasts until `end` is called. */
async function beginUse(clients: PerTenant<Client>, id: string) {
  const inside = Promise.withResolvers<Client>()
  const { promise, resolve: end } = Promise.withResolvers<void>()
  const done = clients.of(id, async (client) => {
    inside.resolve(client)
    await promise
    return client.isOpen
  })
  return { client: await inside.promise, end, done }
}

test('concurrent uses build one client per tenant, in the context of that tenant', async () => {
  const clients = openClients(10)
  const requested = Array.from({ length: 20 }, (_, n) => (n % 2 ? 'acme' : 'globex'))
  const found = await Promise.all(requested.map((id) => clients.of(id, (client) => client)))
  expect(found.map(({ tenant }) => tenant.id)).toEqual(requested)
  expect(new Set(found).size).toBe(2)
  expect(built.map(({ tenant, builtFor }) => tenant.id === builtFor)).toEqual([true, true])
})

test('a use runs in the context of its tenant, also for a lazy promise', async () => {
  const clients = openClients(10)
  expect(await clients.of('acme', () => lazy(() => currentContext().tenantId))).toBe('acme')
  await environment.tenancy.run('acme', async () => {
    expect(await clients.current(({ tenant }) => tenant.id)).toBe('acme')
    await expect(clients.of('globex', () => 'x')).rejects.toMatchObject({ code: 'E_TENANT_MISMATCH' })
  })
  await expect(clients.current(() => 'x')).rejects.toMatchObject({ code: 'E_TENANT_MISMATCH' })
  await expect(clients.of('unknown', () => 'x')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  expect(isOpen()).toEqual([['acme', true]])
})

test('disposes the least recently used client beyond max', async () => {
  const clients = openClients(2)
  for (const id of ['acme', 'globex', 'acme', 'initech', 'acme']) await clients.of(id, () => undefined)
  await eventually(() =>
    expect(isOpen()).toEqual([
      ['acme', true],
      ['globex', false],
      ['initech', true],
    ]),
  )
})

test('neither disposes nor replaces a client in use', async () => {
  const clients = openClients(1)
  const uses = await Promise.all(['acme', 'globex', 'acme', 'globex'].map((id) => beginUse(clients, id)))
  expect(isOpen().map(([, open]) => open)).toEqual([true, true])
  for (const use of uses.slice(0, 3)) use.end()
  for (const use of uses.slice(0, 3)) expect(await use.done).toBe(true)
  await eventually(() => expect(isOpen()).toContainEqual(['acme', false]))
  expect(isOpen()).toContainEqual(['globex', true])
  uses[3]?.end()
  expect(await uses[3]?.done).toBe(true)
  expect(await clients.of('globex', (client) => client.isOpen && client === uses[3]?.client)).toBe(true)
  await clients.of('acme', (client) => expect(client.isOpen).toBe(true))
  await eventually(() => expect(isOpen().filter(([, open]) => open)).toEqual([['acme', true]]))
})

test('does not keep a client whose build has failed, and rejects all waiting uses', async () => {
  let builds = 0
  const disposed: number[] = []
  const clients = environment.tenancy.perTenant(
    () => {
      if (++builds === 1) throw new Error('the first build fails')
      return builds
    },
    { dispose: (client) => disposed.push(client) },
  )
  const both = await Promise.allSettled(['acme', 'acme'].map((id) => clients.of(id, (client) => client)))
  expect(both.map((one) => one.status === 'rejected' && one.reason.message)).toEqual(
    Array(2).fill('the first build fails'),
  )
  expect(await clients.of('acme', (client) => client)).toBe(2)
  expect(disposed).toEqual([])
})

test('disposes the client of a tenant deleted by another process after its uses have ended', async () => {
  await installed(environment.tenancy, { id: 'hooli', name: 'hooli' })
  const clients = openClients(10)
  await clients.of('acme', () => undefined)
  const use = await beginUse(clients, 'hooli')
  const other = await environment.open()
  await other.tenants.update('hooli', { name: 'Hooli' })
  await other.tenants.delete('hooli')
  await eventually(async () =>
    expect(await clients.of('hooli', () => 'x').catch(({ code }) => code)).toBe('E_TENANT_NOT_FOUND'),
  )
  use.end()
  expect(await use.done).toBe(true)
  await eventually(() => expect(use.client.isOpen).toBe(false))
  await other.tenants.restore('hooli')
  await eventually(async () => expect(await clients.of('hooli', (client) => client.isOpen)).toBe(true))
  expect(isOpen()).toEqual([
    ['acme', true],
    ['hooli', false],
    ['hooli', true],
  ])
})

test('disposes an unused client of a deleted tenant without a further use', async () => {
  await installed(environment.tenancy, { id: 'vehement', name: 'vehement' })
  const clients = openClients(10)
  await clients.of('vehement', () => undefined)
  await environment.tenancy.tenants.delete('vehement')
  await eventually(() => expect(isOpen()).toEqual([['vehement', false]]))
})

test('a stop waits for uses in progress, disposes every client, and rejects new uses', async () => {
  const tenancy = await environment.open()
  const clients = openClients(10, tenancy)
  await clients.of('globex', () => undefined)
  const use = await beginUse(clients, 'acme')
  const stopped = tenancy.stop()
  await eventually(() => expect(isOpen()).toContainEqual(['globex', false]))
  expect(use.client.isOpen).toBe(true)
  await expect(clients.of('initech', () => 'x')).rejects.toThrow('has stopped')
  await use.client.tenant.pool.query('select 1')
  use.end()
  expect(await use.done).toBe(true)
  await stopped
  expect(isOpen().map(([, open]) => open)).toEqual([false, false])
})

test('logs an error of dispose with the tenant', async () => {
  const clients = environment.tenancy.perTenant(({ id }) => id, {
    max: 1,
    dispose: (id) => Promise.reject(new Error(`no disconnect of ${id}`)),
  })
  await clients.of('acme', () => undefined)
  await clients.of('globex', () => undefined)
  await eventually(() =>
    expect(logged.join('')).toMatch(
      /no disconnect of acme.*"tenantId":"acme"|"tenantId":"acme".*no disconnect of acme/,
    ),
  )
  expect(await clients.of('globex', (id) => id)).toBe('globex')
})

test('a dropped client is replaced at the next use, and disposed after its uses', async () => {
  const clients = openClients(10)
  const use = await beginUse(clients, 'acme')
  await clients.of('globex', () => undefined)
  clients.drop('acme')
  expect(await clients.of('acme', (client) => client === use.client)).toBe(false)
  use.end()
  expect(await use.done).toBe(true)
  await eventually(() => expect(use.client.isOpen).toBe(false))
  expect(isOpen().map(([, open]) => open)).toEqual([false, true, true])
  clients.drop()
  await eventually(() => expect(isOpen().some(([, open]) => open)).toBe(false))
})
