import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { createHttp, DEFAULT_PREFIX, type Http } from '../../http/app.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { branding } from './index.ts'

const TOKEN = 'a-token-for-the-tests'
const DAY_MS = 86_400_000
const NOTHING = {
  displayName: null,
  logoUrl: null,
  faviconUrl: null,
  primaryColor: null,
  accentColor: null,
  supportEmail: null,
  supportUrl: null,
  fromName: null,
  fromEmail: null,
  customCss: null,
}
const EVERYTHING = {
  displayName: 'Acme & Söhne',
  logoUrl: 'https://cdn.acme.example/logo.svg?v=2#dark',
  faviconUrl: 'https://acme.example/favicon.ico',
  primaryColor: '#1a2B3c',
  accentColor: '#ffffff',
  supportEmail: 'help+acme@support.acme.example',
  supportUrl: 'https://acme.example:8443/help',
  fromName: 'Acme 🚀',
  fromEmail: 'no-reply@acme.example',
  customCss: ':root { --brand: #1a2b3c }\n',
}

const clock = fakeClock()
const changes: EventOf<typeof ChangeRecorded>[] = []
let opened: TestTenancy<[ReturnType<typeof branding>]>
let tenancy: Tenancy<[ReturnType<typeof branding>]>
let http: Http
let made = 0

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { satellites: [branding()], role: 'api', clock })
  tenancy = opened.tenancy
  http = createHttp(tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
  tenancy.on(ChangeRecorded, (change) => void changes.push(change))
})
afterAll(() => opened.end())

async function newTenant(): Promise<string> {
  const id = `tenant-${++made}`
  await tenancy.tenants.create({ id, name: 'Acme' })
  return id
}

async function call(method: string, id: string, body?: unknown, token = TOKEN): Promise<[number, any]> {
  const request = new Request(`http://localhost${DEFAULT_PREFIX}/tenants/${id}/branding`, {
    method,
    headers: { 'x-admin-token': token, 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const response = await http.fetch(request)
  return [response.status, await response.json()]
}

/** In the order of the changes; responses may arrive in another order. */
const changesOf = (id: string) =>
  changes
    .filter(({ action, tenantId }) => action === 'branding.update' && tenantId === id)
    .toSorted((one, other) => (one.id < other.id ? -1 : 1))
    .map(({ target, before, after }) => ({ target, before, after }))

async function rowsOf(id: string): Promise<number> {
  const { rows } = await tenancy.kernel.database.sql('select 1 from multitenancy.branding where tenant_id = $1', [id])
  return rows.length
}

describe('branding', () => {
  test('branding without settings has only null members', async () => {
    const id = await newTenant()
    expect(await call('GET', id)).toEqual([200, NOTHING])
    expect(await tenancy.branding.get(id)).toEqual(NOTHING)
  })

  test('an update stores the complete state', async () => {
    const id = await newTenant()
    expect(await call('PUT', id, EVERYTHING)).toEqual([200, EVERYTHING])
    expect(await call('GET', id)).toEqual([200, EVERYTHING])
  })

  test('an update removes members that are absent or null', async () => {
    const id = await newTenant()
    await call('PUT', id, EVERYTHING)
    expect(await call('PUT', id, { displayName: 'Acme', logoUrl: null })).toEqual([
      200,
      { ...NOTHING, displayName: 'Acme' },
    ])
    expect(await call('PUT', id, {})).toEqual([200, NOTHING])
    expect(await call('GET', id)).toEqual([200, NOTHING])
  })

  test('each tenant has separate branding', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await call('PUT', one, EVERYTHING)
    expect(await call('GET', other)).toEqual([200, NOTHING])
  })

  test('an update records a change event with the changed members', async () => {
    const id = await newTenant()
    await call('PUT', id, { displayName: 'Acme', primaryColor: '#000000' })
    await call('PUT', id, { displayName: 'Acme', primaryColor: '#000000' })
    await call('PUT', id, { displayName: 'Acme Ltd', primaryColor: '#000000' })
    const target = `branding:${id}`
    expect(changesOf(id)).toEqual([
      {
        target,
        before: { displayName: null, primaryColor: null },
        after: { displayName: 'Acme', primaryColor: '#000000' },
      },
      { target, before: { displayName: 'Acme' }, after: { displayName: 'Acme Ltd' } },
    ])
  })

  test('an empty update without earlier settings writes nothing', async () => {
    const id = await newTenant()
    expect(await call('PUT', id, {})).toEqual([200, NOTHING])
    expect(changesOf(id)).toEqual([])
    expect(await rowsOf(id)).toBe(0)
  })
})

describe('rejects an invalid request', () => {
  test('with a member that is not valid, naming it', async () => {
    const problem = { code: 'E_INVALID_REQUEST', errors: [{ path: 'fromName', message: expect.any(String) }] }
    const id = await newTenant()
    const request = { ...EVERYTHING, fromName: 'Acme\r\nBcc: all@acme.example' }
    expect(await call('PUT', id, request)).toEqual([400, expect.objectContaining(problem)])
    await expect(tenancy.branding.update(id, request)).rejects.toMatchObject({ code: problem.code })
    expect(await call('GET', id)).toEqual([200, NOTHING])
  })

  test('with what is no member, or no object', async () => {
    const id = await newTenant()
    for (const body of [{ displayname: 'Acme' }, { displayName: 'Acme', tenantId: id }, [], null, 'Acme']) {
      expect(await call('PUT', id, body)).toEqual([400, expect.objectContaining({ code: 'E_INVALID_REQUEST' })])
    }
    expect((await call('PUT', id))[0]).toBe(400)
    expect(await call('GET', id)).toEqual([200, NOTHING])
  })

  test('rejects a request without a token', async () => {
    const id = await newTenant()
    expect((await call('GET', id, undefined, 'wrong'))[0]).toBe(401)
    expect((await call('PUT', id, EVERYTHING, 'wrong'))[0]).toBe(401)
  })
})

describe('a tenant', () => {
  test('an unknown tenant has no branding', async () => {
    for (const response of [await call('GET', 'unknown'), await call('PUT', 'unknown', EVERYTHING)]) {
      expect(response).toEqual([404, expect.objectContaining({ code: 'E_TENANT_NOT_FOUND' })])
    }
  })

  test('a deleted tenant keeps its branding, unchanged, and has it after a restore', async () => {
    const id = await newTenant()
    await call('PUT', id, EVERYTHING)
    await tenancy.tenants.delete(id)
    expect(await call('PUT', id, {})).toEqual([
      409,
      expect.objectContaining({ code: 'E_TENANT_STATE', from: 'deleted' }),
    ])
    expect(await call('GET', id)).toEqual([200, EVERYTHING])
    await tenancy.tenants.restore(id)
    expect(await call('PUT', id, {})).toEqual([200, NOTHING])
  })

  test('a purge removes the branding, and a failed purge keeps it', async () => {
    const id = await newTenant()
    await call('PUT', id, EVERYTHING)
    await tenancy.tenants.delete(id)
    clock.advance(31 * DAY_MS)
    const failing = tenancy.transaction(async () => {
      await tenancy.tenants.installation.purge(id)
      expect(await rowsOf(id)).toBe(0)
      throw new Error('the server is unavailable')
    })
    await expect(failing).rejects.toThrow('the server is unavailable')
    expect(await rowsOf(id)).toBe(1)
    await tenancy.tenants.installation.purge(id)
    expect(await rowsOf(id)).toBe(0)
    expect((await call('GET', id))[0]).toBe(404)
    expect((await call('PUT', id, EVERYTHING))[0]).toBe(404)
  })
})

describe('concurrent changes', () => {
  test('each of twenty concurrent updates records the state that it replaced', async () => {
    const id = await newTenant()
    await Promise.all(Array.from({ length: 20 }, (_, n) => tenancy.branding.update(id, { displayName: `Acme ${n}` })))
    const chain = changesOf(id)
    expect(chain).toHaveLength(20)
    chain.forEach(({ before }, index) => {
      expect(before).toEqual(chain[index - 1]?.after ?? { displayName: null })
    })
    expect(await tenancy.branding.get(id)).toMatchObject(chain.at(-1)?.after ?? {})
  })

  test('without a transaction, no lock on the tenant outlives its statement', async () => {
    await expect(lockTenant(tenancy.kernel.database, await newTenant())).rejects.toThrow('without a transaction')
  })

  test('a deletion waits for an earlier update', async () => {
    const id = await newTenant()
    const held = holding(() => tenancy.branding.update(id, EVERYTHING))
    await held.reached
    const deletion = tenancy.tenants.delete(id)
    await somebodyWaitsForALock()
    held.release()
    await Promise.all([held.done, deletion])
    expect(await call('GET', id)).toEqual([200, EVERYTHING])
    expect((await tenancy.tenants.get(id)).status).toBe('deleted')
  })

  test('an update waits for an earlier deletion, and is rejected', async () => {
    const id = await newTenant()
    const held = holding(() => tenancy.tenants.delete(id))
    await held.reached
    const write = call('PUT', id, EVERYTHING)
    await somebodyWaitsForALock()
    held.release()
    await held.done
    expect(await write).toEqual([409, expect.objectContaining({ code: 'E_TENANT_STATE' })])
    expect(await call('GET', id)).toEqual([200, NOTHING])
  })

  test('an update succeeds after an earlier deletion is rolled back', async () => {
    const id = await newTenant()
    const held = holding(async () => tenancy.tenants.delete(id))
    await held.reached
    const write = call('PUT', id, EVERYTHING)
    await somebodyWaitsForALock()
    held.release(new Error('no'))
    await expect(held.done).rejects.toThrow('no')
    expect(await write).toEqual([200, EVERYTHING])
  })

  /** Runs `work` in a transaction that stays open until it is released, with or without an error. */
  function holding(work: () => Promise<unknown>) {
    const reached = Promise.withResolvers<void>()
    const ending = Promise.withResolvers<void>()
    const done = tenancy.transaction(async () => {
      await work()
      reached.resolve()
      await ending.promise
    })
    return {
      reached: Promise.race([reached.promise, done]),
      done,
      release: (error?: Error) => (error ? ending.reject(error) : ending.resolve()),
    }
  }

  const somebodyWaitsForALock = () =>
    vi.waitUntil(
      async () => {
        const { rows } = await tenancy.kernel.database.sql(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        return rows.length > 0
      },
      { timeout: 10_000, interval: 20 },
    )
})
