import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { defineError } from '../../kernel/base/errors.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import { createGuard, type GuardDecision, type GuardedTenants, type GuardOptions } from './guard.ts'
import { firstOf, fromCustomDomain, fromFunction, fromHeader, fromPath, type GuardedRequest } from './strategies.ts'

const NOT_IDENTIFIED = { code: 'E_TENANT_NOT_IDENTIFIED', status: 400 }
const NOT_FOUND = { code: 'E_TENANT_NOT_FOUND', status: 404, message: 'Tenant not found.' }
const DENIED = { code: 'E_TENANT_ACCESS_DENIED', status: 403 }
const SUSPENDED = { code: 'E_TENANT_SUSPENDED', status: 403 }
const CircuitOpen = defineError('E_CIRCUIT_OPEN', 503, 'The circuit is open')

let opened: TestTenancy<[]>
let here: Tenancy
/** A second process on the same database. */
let there: Tenancy

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  here = opened.tenancy
  there = await opened.open({ role: 'api' })
})
afterAll(() => opened.end())

type Requested = Partial<GuardedRequest> & { readonly id?: string }

const request = ({ id, ...rest }: Requested): GuardedRequest => ({
  method: 'GET',
  path: '/orders',
  host: undefined,
  header: (name) => (name === 'x-tenant-id' ? id : undefined),
  raw: undefined,
  ...rest,
})

const guardOf = (options: Partial<GuardOptions> = {}, tenants: GuardedTenants = here.tenants) => {
  const { admit } = createGuard(tenants, { resolve: fromHeader(), authorize: 'anyone', ...options })
  return async (requested: Requested): Promise<GuardDecision> => admit(request(requested))
}

const idOf = async (decision: Promise<GuardDecision>) => (await decision).tenant?.id

describe('a tenant', () => {
  let id: string
  beforeEach(async () => {
    ;({ id } = await installed(here, { name: 'Acme', metadata: { plan: 'free' }, domains: [] }))
  })

  test('is admitted with its handle and its registered data', async () => {
    const { tenant } = await guardOf()({ id })
    expect(tenant).toMatchObject({ id, record: { id, name: 'Acme', status: 'active', metadata: { plan: 'free' } } })
    const answered = await tenant?.transaction((db) => sql`select 7 as answer`.execute(db))
    expect(answered?.rows).toEqual([{ answer: 7 }])
  })

  test('in the cache is admitted synchronously', async () => {
    const guard = createGuard(here.tenants, {
      resolve: firstOf(fromHeader(), fromCustomDomain()),
      authorize: () => true,
      universal: ['/both'],
    })
    const domain = `${id}.example`
    await here.tenants.update(id, { domains: [domain] })
    // A notification on another connection invalidates the cache after the last change.
    await eventually(async () => {
      await guard.admit(request({ id }))
      await guard.admit(request({ host: domain }))
      expect(guard.admit(request({ id }))).toMatchObject({ tenant: { id } })
      expect(guard.admit(request({ host: `${domain.toUpperCase()}.:443` }))).toMatchObject({ tenant: { id } })
    })
  })

  test('is admitted or rejected by its status', async () => {
    const admit = guardOf()
    await here.tenants.enterMaintenance(id, { message: 'Back at noon.', retryAfterSeconds: 77 })
    const maintenance = { code: 'E_TENANT_MAINTENANCE', status: 503, message: 'Back at noon.', retryAfterSeconds: 77 }
    await expect(admit({ id })).rejects.toMatchObject(maintenance)
    await here.tenants.suspend(id)
    await expect(admit({ id })).rejects.toMatchObject(SUSPENDED)
    await here.tenants.delete(id)
    await expect(admit({ id })).rejects.toMatchObject(NOT_FOUND)
    await here.tenants.restore(id)
    await expect(admit({ id })).rejects.toMatchObject(SUSPENDED)
    await here.tenants.activate(id)
    await here.tenants.exitMaintenance(id)
    expect(await idOf(admit({ id }))).toBe(id)
  })

  test('that is not ready is rejected with Retry-After', async () => {
    const notReady = { code: 'E_TENANT_NOT_READY', status: 503, retryAfterSeconds: 5 }
    for (const status of ['provisioning', 'failed']) {
      await here.transaction(async () => {
        await here.kernel.database.sql('update multitenancy.tenants set status = $2 where id = $1', [id, status])
        await here.tenants.registry.changed(id)
      })
      await expect(guardOf()({ id })).rejects.toMatchObject(notReady)
    }
  })

  test('with an open circuit is rejected after all other checks', async () => {
    const refusing: GuardedTenants = {
      registry: here.tenants.registry,
      handles: here.tenants.handles,
      assertCircuitClosed: ({ tenant, location }) => {
        throw CircuitOpen(`${tenant.isolation} on ${location.placement}`)
      },
    }
    await expect(guardOf({}, refusing)({ id })).rejects.toMatchObject({ message: 'schema-pg on main', status: 503 })
    await here.tenants.suspend(id)
    await expect(guardOf({}, refusing)({ id })).rejects.toMatchObject(SUSPENDED)
  })

  test('that is suspended, deleted or restored in one process is so in every other process', async () => {
    const admit = guardOf({}, there.tenants)
    expect(await idOf(admit({ id }))).toBe(id)
    await here.tenants.suspend(id)
    await eventually(() => expect(admit({ id })).rejects.toMatchObject(SUSPENDED))
    await here.tenants.activate(id)
    await eventually(() => admit({ id }))
    await here.tenants.delete(id)
    await eventually(() => expect(admit({ id })).rejects.toMatchObject(NOT_FOUND))
    await here.tenants.restore(id)
    await eventually(() => admit({ id }))
  })

  test('is found by a domain added in any process', async () => {
    const admit = guardOf({ resolve: fromCustomDomain() }, there.tenants)
    const host = `shop-${id}.example`
    await expect(admit({ host })).rejects.toMatchObject(NOT_FOUND)
    await here.tenants.update(id, { domains: [host] })
    await eventually(async () => expect(await idOf(admit({ host: `${host}:8080` }))).toBe(id))
    await here.tenants.delete(id)
    await eventually(() => expect(admit({ host })).rejects.toMatchObject(NOT_FOUND))
  })
})

describe('an unknown tenant', () => {
  test.each([
    'unknown',
    'ACME',
    '__proto__',
    'constructor',
    '-',
    '../acme',
    'acme\u0000',
    "a' or 'a'='a",
    'mañana',
    '日本',
    'a b',
    'x'.repeat(49),
    'x'.repeat(10_240),
  ])('is rejected with the same response for the id %s', async (id) => {
    await expect(guardOf()({ id })).rejects.toMatchObject(NOT_FOUND)
  })

  test('causes no database read for an invalid id', async () => {
    const { admit } = createGuard(here.tenants, { resolve: fromHeader(), authorize: 'anyone' })
    expect(() => admit(request({ id: 'No Id' }))).toThrow(expect.objectContaining(NOT_FOUND))
  })

  test('is indistinguishable from a deleted tenant', async () => {
    const { id } = await installed(here, { name: 'Gone', domains: ['gone.example'] })
    await here.tenants.delete(id)
    const admit = guardOf({ resolve: firstOf(fromHeader(), fromCustomDomain()) })
    const [never, deleted, byDomain, noDomain] = await Promise.all(
      [{ id: 'never' }, { id }, { host: 'gone.example' }, { host: 'never.example' }].map((requested) =>
        admit(requested).catch(({ name, code, status, title, message, extras, retryAfterSeconds, cause }) => ({
          ...{ name, code, status, title, message, extras, retryAfterSeconds, cause },
        })),
      ),
    )
    expect(deleted).toEqual(never)
    expect(byDomain).toEqual(never)
    expect(noDomain).toEqual(never)
    expect(JSON.stringify(never)).not.toContain('never')
  })
})

test('rejects a request that names no tenant, or two', async () => {
  for (const id of [undefined, '', 'a,b']) await expect(guardOf()({ id })).rejects.toMatchObject(NOT_IDENTIFIED)
})

test('rejects options without authorize at the start', () => {
  const message = `guard.authorize is required: a function, or 'anyone'`
  // @ts-expect-error authorize is required
  expect(() => here.guard({ resolve: fromHeader() })).toThrow(message)
  for (const authorize of [undefined, null, true, 'everyone']) {
    expect(() => here.guard({ resolve: fromHeader(), authorize: authorize as 'anyone' })).toThrow(message)
  }
})

test('logs a guard that admits anyone once, at its creation', async () => {
  const lines: string[] = []
  const logger = createLogger({ level: 'warn', write: (line) => void lines.push(line) })
  const { guard } = await opened.open({ role: 'api', logger })
  guard({ resolve: fromHeader(), authorize: () => true })
  expect(lines).toEqual([])
  const { admit } = guard({ resolve: fromHeader(), authorize: 'anyone', universal: ['/orders'] })
  admit(request({}))
  admit(request({}))
  expect(lines).toEqual([expect.stringContaining('authorize: anyone')])
})

describe('the actor', () => {
  const ann = { type: 'user', id: 'ann', name: 'Ann' } as const

  test('is requested from the host after authorize, for admitted requests only', async () => {
    const { id } = await installed(here, { name: 'Named' })
    const calls: string[] = []
    const authorize = ({ raw }: GuardedRequest) => {
      calls.push('authorize')
      return raw === 'member'
    }
    const actor = () => {
      calls.push('actor')
      return ann
    }
    for (const hook of [actor, async () => actor()]) {
      expect(await guardOf({ authorize, actor: hook })({ id, raw: 'member' })).toMatchObject({ actor: ann })
      expect(calls.splice(0)).toEqual(['authorize', 'actor'])
      await expect(guardOf({ authorize, actor: hook })({ id, raw: 'stranger' })).rejects.toMatchObject(DENIED)
      expect(calls.splice(0)).toEqual(['authorize'])
    }
    expect(await guardOf({ authorize })({ id, raw: 'member' })).toMatchObject({ actor: undefined })
  })
})

test('a guard inside the context of a tenant admits no other tenant', async () => {
  const [one, other] = [await installed(here, { name: 'One' }), await installed(here, { name: 'Other' })]
  await here.run(one.id, async () => {
    expect(await idOf(guardOf()({ id: one.id }))).toBe(one.id)
    await expect(guardOf()({ id: other.id })).rejects.toMatchObject({ code: 'E_TENANT_MISMATCH' })
  })
})

describe('membership of the caller', () => {
  let id: string
  const calls: string[] = []
  const authorize = ({ raw }: GuardedRequest, tenant: TenantRecord) => {
    calls.push(tenant.id)
    return raw === 'member'
  }
  beforeAll(async () => {
    ;({ id } = await installed(here, { name: 'Club' }))
  })
  beforeEach(() => {
    calls.splice(0)
  })

  test('is decided by the host with its own request and the tenant', async () => {
    for (const hook of [authorize, async (...of: Parameters<typeof authorize>) => authorize(...of)]) {
      expect(await idOf(guardOf({ authorize: hook })({ id, raw: 'member' }))).toBe(id)
      await expect(guardOf({ authorize: hook })({ id, raw: 'stranger' })).rejects.toMatchObject(DENIED)
    }
  })

  test('is checked before the status of the tenant, which is hidden from strangers', async () => {
    const admit = guardOf({ authorize })
    await here.tenants.suspend(id)
    await expect(admit({ id, raw: 'stranger' })).rejects.toMatchObject(DENIED)
    await expect(admit({ id, raw: 'member' })).rejects.toMatchObject(SUSPENDED)
    await here.tenants.activate(id)
    await here.tenants.enterMaintenance(id)
    await expect(admit({ id, raw: 'stranger' })).rejects.toMatchObject(DENIED)
    await here.tenants.exitMaintenance(id)
  })

  test('is not checked for unknown tenants', async () => {
    const { id: gone } = await installed(here, { name: 'Gone' })
    await here.tenants.delete(gone)
    for (const none of ['never', 'NO ID', gone]) {
      await expect(guardOf({ authorize })({ id: none, raw: 'member' })).rejects.toMatchObject(NOT_FOUND)
    }
    expect(calls).toEqual([])
  })

  test('can be denied with the response of an unknown tenant', async () => {
    const admit = guardOf({ authorize, denial: 'not-found' })
    await expect(admit({ id, raw: 'stranger' })).rejects.toMatchObject(NOT_FOUND)
    expect(await idOf(admit({ id, raw: 'member' }))).toBe(id)
  })

  test('is denied when the hook fails, or returns anything but true', async () => {
    const failing = () => {
      throw new Error('the session store is unavailable')
    }
    for (const hook of [failing, async () => failing()]) {
      await expect(guardOf({ authorize: hook })({ id })).rejects.toThrow('the session store is unavailable')
    }
    for (const result of [undefined, null, 'yes', 1, {}, [true]] as any[]) {
      await expect(guardOf({ authorize: () => result })({ id })).rejects.toMatchObject(DENIED)
      await expect(guardOf({ authorize: async () => result })({ id })).rejects.toMatchObject(DENIED)
    }
  })
})

describe('paths', () => {
  let id: string
  beforeAll(async () => {
    ;({ id } = await installed(here, { name: 'Routed' }))
  })
  const options = {
    ignore: ['/health', '/assets/*'],
    central: ['/central/*', /^\/signup$/],
    universal: ['/home', '/home/*'],
    resolve: firstOf(
      fromHeader(),
      fromFunction(async () => undefined),
      fromPath(),
    ),
  }
  const scopeOf = async (path: string, from: Requested = {}) => (await guardOf(options)({ ...from, path })).scope

  test('that are ignored or central have no tenant, even if the request names one', async () => {
    for (const from of [{}, { id }, { id: 'unknown' }, { id: 'a,b' }]) {
      expect(await scopeOf('/health', from)).toBe('ignored')
      expect(await scopeOf('/assets/logo.png', from)).toBe('ignored')
      expect(await scopeOf('/central/tenants', from)).toBe('central')
      expect(await scopeOf('/signup', from)).toBe('central')
    }
  })

  test('that are universal are checked if the request names a tenant', async () => {
    expect(await scopeOf('/home')).toBe('none')
    expect(await scopeOf('/home', { id })).toBe('tenant')
    await expect(scopeOf('/home/x', { id: 'unknown' })).rejects.toMatchObject(NOT_FOUND)
    await expect(scopeOf('/home', { id: 'a,b' })).rejects.toMatchObject(NOT_IDENTIFIED)
    await here.tenants.suspend(id)
    await expect(scopeOf('/home', { id })).rejects.toMatchObject(SUSPENDED)
    await here.tenants.activate(id)
  })

  test.each([
    '/orders/../health',
    '/orders/%2e%2e/health',
    '/assets/../orders',
    '/assets/%2e%2e%2forders',
    '/assets/..;/orders',
    '/assets/..\\orders',
    '/assets/%5c..%5corders',
    '/assets/./x',
    '/assets//orders',
    '//health',
    '/health/',
    '/HEALTH',
    '/health%00',
    '/health%2f..%2forders',
    '/Assets/logo.png',
    '/assets',
    '/central/%252e%252e/orders',
    '/%',
    '*',
  ])('guards the path %s', async (path) => {
    await expect(scopeOf(path)).rejects.toMatchObject(NOT_IDENTIFIED)
    expect(await scopeOf(path, { id })).toBe('tenant')
  })

  test('are guarded for every method', async () => {
    for (const method of ['HEAD', 'OPTIONS', 'POST', 'BREW']) {
      await expect(guardOf(options)({ method })).rejects.toMatchObject(NOT_IDENTIFIED)
      expect(await idOf(guardOf(options)({ method, id }))).toBe(id)
    }
  })

  test('that can never match are rejected at the start', () => {
    for (const list of ['ignore', 'central', 'universal'] as const) {
      expect(() =>
        createGuard(here.tenants, { resolve: fromHeader(), authorize: 'anyone', [list]: ['health'] }),
      ).toThrow(/is not a path pattern/)
    }
  })
})
