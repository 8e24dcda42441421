import fc from 'fast-check'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { TenancyError } from '../../kernel/base/errors.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { installed, testTenancy } from '../../testing/base/tenancy.ts'
import type { Guard } from '../guard/guard.ts'
import { firstOf, fromCustomDomain, fromHeader, type GuardedRequest } from '../guard/strategies.ts'
import { STATUSES, type Status } from '../tenant/lifecycle.ts'
import type { Explanation } from './explanation.ts'
import type { Entry } from './resolution.ts'

const GUARD_CHECKS = ['exists', 'member', 'status', 'ready', 'maintenance', 'circuit']

let tenancy: Tenancy
let clock: FakeClock
let openWithoutGuard: () => Promise<Tenancy>
let guard: Guard
let id: string
let domain: string
beforeAll(async () => {
  clock = fakeClock(new Date())
  const opened = await testTenancy(inject('postgresUrl'), { clock })
  tenancy = opened.tenancy
  openWithoutGuard = () => opened.open({ role: 'api' })
  guard = tenancy.guard({
    resolve: firstOf(fromHeader(), fromCustomDomain({ ignore: ['app.example'] })),
    authorize: 'anyone',
    ignore: ['/health'],
    central: ['/pricing'],
  })
  ;({ id } = await installed(tenancy, { name: 'Acme' }))
  domain = `${id}.example`
  await tenancy.tenants.update(id, { domains: [domain] })
  return opened.end
})

interface State {
  readonly status: Status
  readonly isInMaintenance: boolean
  readonly isPurged: boolean
}

/** In a row that no operation would write in this order, so that every combination occurs. */
async function put({ status, isInMaintenance, isPurged }: State): Promise<void> {
  const { database } = tenancy.kernel
  const maintenance = isInMaintenance
    ? { message: null, retryAfterSeconds: 60, since: clock.now().toISOString() }
    : null
  await database.transaction(async () => {
    await database.sql(
      'update multitenancy.tenants set status = $2, maintenance = $3, suspended_at = $4, purged_at = $5 where id = $1',
      [id, status, maintenance, status === 'suspended' ? clock.now() : null, isPurged ? clock.now() : null],
    )
    await tenancy.tenants.registry.changed(id)
  })
}

const ACTIVE: State = { status: 'active', isInMaintenance: false, isPurged: false }

const requestOf = ({ host, path = '/orders' }: Entry): GuardedRequest => ({
  method: 'GET',
  path,
  host,
  header: (name) => (name === 'x-tenant-id' && host === undefined ? id : undefined),
  raw: undefined,
})

const ADMITTED = { status: null, code: null }

/** The response of the guard, of which an admission has no status. */
async function responseOf(entry: Entry): Promise<Explanation['response']> {
  try {
    await guard.admit(requestOf(entry))
    return ADMITTED
  } catch (error) {
    if (!(error instanceof TenancyError)) throw error
    return { status: error.status, code: error.code }
  }
}

async function explained(entry: Entry): Promise<Pick<Explanation, 'response' | 'checks'>> {
  try {
    return await tenancy.tenants.explain(id, entry)
  } catch (error) {
    if (!(error instanceof TenancyError)) throw error
    return { response: { status: error.status, code: error.code }, checks: [] }
  }
}

const states = fc.record({
  status: fc.constantFrom(...STATUSES),
  isInMaintenance: fc.boolean(),
  isPurged: fc.boolean(),
})
const hosts = fc.constantFrom('own', 'unknown.example', 'app.example', undefined)
const paths = fc.constantFrom('/orders', '/health', '/pricing', undefined)

const agrees = fc.asyncProperty(states, hosts, paths, async (state, named, path) => {
  await put(state)
  const host = named === 'own' ? domain : named
  // A path alone names no tenant to this guard; a request without an entry names it by the header.
  const entry = host === undefined ? {} : { host, path }
  const [response, explanation] = [await responseOf(entry), await explained(entry)]
  if (state.isPurged) expect(explanation.response).toEqual({ status: 404, code: 'E_TENANT_NOT_FOUND' })
  else expect(explanation.response).toEqual(response)
  const ofGuard = explanation.checks.filter(({ check }) => GUARD_CHECKS.includes(check))
  const failed = ofGuard.find(({ passed }) => passed === false)
  if (host === undefined || named === 'own') {
    if (!state.isPurged && (path ?? '/orders') === '/orders') expect(failed?.code ?? null).toBe(response.code)
  }
})

describe('the explanation and the guard', () => {
  test('have the same response in every state', async () => {
    await fc.assert(agrees, { numRuns: 150 })
  })

  test('have the same response in every state while the circuit of the server is open', async () => {
    await put(ACTIVE)
    const { circuits } = tenancy.tenants
    const located = await tenancy.tenants.registry.find(id)
    const { location } = located ?? expect.fail('not found')
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    while (circuits.isClosed(location)) {
      await circuits.run(location, () => Promise.reject(refused)).catch(() => undefined)
    }
    const { checks, response } = await tenancy.tenants.explain(id)
    expect(response).toEqual({ status: 503, code: 'E_CIRCUIT_OPEN' })
    expect(checks.find(({ check }) => check === 'circuit')).toMatchObject({
      passed: false,
      since: clock.now().toISOString(),
    })
    await fc.assert(agrees, { numRuns: 100 })
    clock.advance(600_000)
    await put(ACTIVE)
    await circuits.run(location, async () => undefined)
    expect(circuits.isClosed(location)).toBe(true)
  })
})

describe('the explanation', () => {
  test('passes every check of an active tenant', async () => {
    await put(ACTIVE)
    const { checks, response } = await tenancy.tenants.explain(id)
    expect(response).toEqual(ADMITTED)
    expect(checks.map(({ check }) => check)).toEqual([
      ...GUARD_CHECKS,
      ...['transfer', 'fence', 'connections', 'schema', 'plan'],
    ])
    expect(checks.filter(({ passed }) => passed === false)).toEqual([])
    expect(checks.filter(({ passed }) => passed === null).map(({ check }) => check)).toEqual(['member'])
  })

  test('continues after a failed check, with time and remedy of each', async () => {
    await put({ status: 'suspended', isInMaintenance: true, isPurged: false })
    const { checks, response } = await tenancy.tenants.explain(id)
    expect(response).toEqual({ status: 403, code: 'E_TENANT_SUSPENDED' })
    const failed = checks.filter(({ passed }) => passed === false)
    const since = clock.now().toISOString()
    expect(failed).toMatchObject([
      { check: 'status', code: 'E_TENANT_SUSPENDED', since, remedy: { operation: 'tenants.activate', params: { id } } },
      { check: 'maintenance', code: 'E_TENANT_MAINTENANCE', since, remedy: { operation: 'tenants.exitMaintenance' } },
    ])
  })

  test('shows a fence at the server that the registry does not know', async () => {
    await put(ACTIVE)
    const located = (await tenancy.tenants.registry.find(id)) ?? expect.fail('not found')
    const driver = tenancy.tenants.storage.driver(located.location.isolation)
    await driver.fence(located.location)
    const { checks, response } = await tenancy.tenants.explain(id)
    await driver.unfence(located.location)
    expect(response).toEqual(ADMITTED)
    expect(checks.find(({ check }) => check === 'fence')).toMatchObject({
      passed: false,
      code: 'E_TENANT_STORAGE_FENCED',
    })
  })

  test('names a domain of another tenant without its id', async () => {
    await put(ACTIVE)
    const other = await installed(tenancy, { name: 'Globex' })
    await tenancy.tenants.update(other.id, { domains: [`${other.id}.example`] })
    const { checks, response } = await tenancy.tenants.explain(id, { host: `${other.id}.example` })
    expect(checks[0]).toMatchObject({ check: 'resolved', passed: false, message: expect.stringContaining('another') })
    expect(JSON.stringify(checks)).not.toContain(other.id)
    expect(response).toEqual(ADMITTED)
  })

  test('a token with a tenant limit learns nothing about domains and ids of other tenants', async () => {
    await put(ACTIVE)
    const other = await installed(tenancy, { name: 'Initech' })
    await tenancy.tenants.update(other.id, { domains: [`${other.id}.example`] })
    const process = await openWithoutGuard()
    const grant = { bounds: [[]], operations: new Set<string>(), tenants: [id], expiresAt: null } as const
    const explained = (host: string) =>
      enterContext({ ...currentContext(), grant }, async () => {
        const both = await Promise.all([tenancy, process].map(({ tenants }) => tenants.explain(id, { host })))
        return both.map(({ checks: [resolved], response }) => ({ resolved, response }))
      })
    expect(await explained(`${other.id}.example`)).toEqual(await explained('unknown.example'))
    expect(await explained(domain)).toMatchObject([{ resolved: { passed: true } }, { resolved: { passed: true } }])
    await process.stop()
  })

  test('a suspension explains the closed storage', async () => {
    await put(ACTIVE)
    await tenancy.tenants.suspend(id)
    const { checks } = await tenancy.tenants.explain(id)
    expect(checks.filter(({ passed }) => passed === false).map(({ check }) => check)).toEqual(['status'])
    await tenancy.tenants.activate(id)
  })

  test('reads domains in a process without a guard', async () => {
    await put(ACTIVE)
    const process = await openWithoutGuard()
    const resolved = async (host: string) => (await process.tenants.explain(id, { host })).checks[0]
    expect(await resolved(domain)).toMatchObject({ check: 'resolved', passed: true })
    expect(await resolved('unknown.example')).toMatchObject({ check: 'resolved', passed: null })
    await process.stop()
  })

  test('rejects an unknown tenant', async () => {
    await expect(tenancy.tenants.explain('unknown')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  })
})
