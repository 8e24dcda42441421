import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { Plans, type PlansConfig } from './plans.ts'

const definitions = { free: { limits: { exports: 1 } }, pro: { limits: { exports: 100 } } }

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => opened.end())

const openWith = async (plans: Partial<PlansConfig>) => {
  const tenancy = await opened.open({ plans: { defaultPlan: 'free', definitions, ...plans } })
  const { tenants, kernel } = tenancy
  const { id } = await tenants.create({ name: 'Acme' })
  const degraded: unknown[] = []
  tenancy.on(DependencyDegraded, (event) => void degraded.push(event))
  return {
    id,
    tenants,
    kernel,
    degraded,
    planOf: async () => (await tenants.plans.resolve(await tenants.get(id))).plan,
  }
}

test('metadata.plan selects the plan and must be a defined plan', async () => {
  const { id, tenants, planOf } = await openWith({})
  expect(await tenants.plans.resolve(await tenants.get(id))).toEqual({
    plan: 'free',
    limits: new Map([['exports', 1]]),
    settings: {},
  })
  expect((await tenants.setPlan(id, 'pro')).metadata).toEqual({ plan: 'pro' })
  expect(await planOf()).toBe('pro')
  await expect(tenants.setPlan(id, 'gold')).rejects.toMatchObject({ code: 'E_PLAN_NOT_FOUND', status: 404 })
  await expect(tenants.setPlan(id, 'toString')).rejects.toMatchObject({ code: 'E_PLAN_NOT_FOUND' })
  await expect(tenants.setPlan('unknown', 'pro')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  const unknown = tenants.update(id, { metadata: { plan: 'gold' } })
  await expect(unknown).rejects.toMatchObject({ status: 400, extras: { errors: [{ path: 'metadata.plan' }] } })
  await tenants.update(id, { metadata: { plan: null } })
  expect(await planOf()).toBe('free')
  expect(tenants.plans.describe()).toEqual({ defaultPlan: 'free', resolvedBy: 'metadata', definitions })
})

test('an undefined plan counts as the default plan and does not block other updates', async () => {
  const { id, tenants } = await openWith({})
  await tenants.setPlan(id, 'pro')
  const later = await openWith({ definitions: { free: { limits: {} } } })
  const acme = await later.tenants.update(id, { name: 'Acme & Sons' })
  expect(acme).toMatchObject({ metadata: { plan: 'pro' }, name: 'Acme & Sons' })
  expect(await later.tenants.plans.resolve(acme)).toMatchObject({ plan: 'free', limits: new Map() })
})

test('getPlan is called for each resolution and is the only source of the plan', async () => {
  let result: unknown = 'pro'
  const { id, tenants, planOf, degraded } = await openWith({ getPlan: () => result as string })
  expect(await planOf()).toBe('pro')
  result = 'free'
  expect(await planOf()).toBe('free')
  for (result of ['gold', 'constructor', undefined, 7]) expect(await planOf()).toBe('free')
  await expect(tenants.setPlan(id, 'pro')).rejects.toMatchObject({ code: 'E_PLAN_RESOLVED_BY_HOST', status: 409 })
  expect(tenants.plans.describe().resolvedBy).toBe('host')
  expect(degraded).toEqual([])
})

test('a failing getPlan selects the default plan, then the last known plan, and publishes DependencyDegraded each time', async () => {
  let getPlan: () => string = () => {
    throw new Error('the password is secret')
  }
  const { id, planOf, degraded } = await openWith({ getPlan: () => getPlan() })
  expect(await planOf()).toBe('free')
  const failing = getPlan
  getPlan = () => 'pro'
  expect(await planOf()).toBe('pro')
  getPlan = failing
  expect(await planOf()).toBe('pro')
  const degradation = {
    dependency: 'plans',
    operation: 'plans.resolve',
    tenantId: id,
    policy: 'fail-open',
    errorCode: 'E_PLAN_RESOLVER_FAILED',
  }
  expect(degraded).toMatchObject([degradation, degradation])
  expect(JSON.stringify(degraded)).not.toContain('secret')
})

test('a timeout of getPlan selects the last known plan, and a late response does not change it', async () => {
  const late = Promise.withResolvers<string>()
  const results = ['pro', late.promise, new Promise<string>(() => undefined)]
  const { id, tenants, degraded, kernel } = await openWith({})
  const getPlan = () => results.shift() ?? expect.fail()
  const plans = new Plans({ defaultPlan: 'free', definitions, getPlan }, kernel, 20)
  const planOf = async () => (await plans.resolve(await tenants.get(id))).plan
  expect(await planOf()).toBe('pro')
  expect(await planOf()).toBe('pro')
  late.resolve('free')
  expect(await planOf()).toBe('pro')
  expect(results).toEqual([])
  const timeout = { operation: 'plans.resolve', errorCode: 'E_PLAN_RESOLVER_FAILED' }
  await eventually(() => expect(degraded).toMatchObject([timeout, timeout]))
})

test('tenants have the plan of getPlan, which is called once a second for concurrent uses and may use the tenant itself', async () => {
  const uses: string[] = []
  const getPlan = async ({ id }: { id: string }): Promise<string> => {
    const { plan } = await tenancy.tenant(id)
    uses.push(plan)
    return 'pro'
  }
  const tenancy = await opened.open({ role: 'all', plans: { defaultPlan: 'free', definitions, getPlan } })
  const { id } = await installed(tenancy, { id: 'billed', name: 'Billed' })
  const guard = tenancy.guard({ resolve: () => ({ id }), authorize: 'anyone' })
  const request = { raw: {}, method: 'GET', path: '/', host: undefined, header: () => undefined }
  const [tenant, { tenant: guarded }] = await Promise.all([tenancy.tenant(id), guard.admit(request)])
  expect(tenant.plan).toBe('pro')
  expect(guarded?.plan).toBe('pro')
  expect(uses).toEqual(['free'])
})

test('an undefined default plan rejects the start', async () => {
  await expect(openWith({ defaultPlan: 'gold' })).rejects.toThrow('"gold" is not among plans.definitions')
})

test.each([
  ['a quota with a space', { free: { limits: { 'api calls': 1 } } }],
  ['a limit that is not a number', { free: { limits: { exports: Number.NaN } } }],
  ['a negative limit', { free: { limits: { exports: -1 } } }],
  ['an infinite limit', { free: { limits: { exports: Number.POSITIVE_INFINITY } } }],
  ['an unknown member', { free: { limits: {}, limts: {} } }],
])('%s in a definition rejects the start', async (_, definitions) => {
  const opening = opened.open({ plans: { defaultPlan: 'free', definitions } })
  await expect(opening).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    message: expect.stringContaining('plans.definitions.free'),
  })
})
