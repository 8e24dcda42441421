/** Billing in the ready-made service: disabled until configured, then part of the API. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Provider, startProvider } from '../../test/support/provider/provider.ts'
import { createTestDatabase, type TestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { eventually, TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { loadConfig, type ServiceConfig } from './config.ts'
import { type Service, satellites, startService } from './main.ts'
import { EXAMPLE_PLANS } from './settings/plans.ts'

const TOKEN = 'a-token-for-the-service'
const SECRETS = 'whsec_the_new_one, whsec_the_old_one'
const API = '/admin/multitenancy/tenants'
const WAIT_TIMEOUT_MS = 30_000

let directory: string
let database: TestDatabase
let provider: Provider
let priceId: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-billing-service-'))
  database = await createTestDatabase(inject('postgresUrl'))
  provider = await startProvider()
  priceId = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 2_900, interval: 'month' }).id
})
afterAll(async () => {
  await provider.close()
  await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

const load = async (content: object, env: Record<string, string> = {}): Promise<ServiceConfig> => {
  const file = join(directory, 'tenantry.config.json')
  await writeFile(file, JSON.stringify({ plans: EXAMPLE_PLANS, ...content }))
  return loadConfig({ env, directory, file, satellites })
}
const errorsOf = async (loading: Promise<unknown>): Promise<string[]> => {
  const error = await loading.then(
    () => undefined,
    (reason: Error) => reason,
  )
  const [, ...lines] = (error?.message ?? '').split('\n')
  return lines.map((line) => line.trim().replaceAll(join(directory, 'tenantry.config.json'), '<file>'))
}

describe('the configuration of billing', () => {
  const products = { price_1: 'pro', prod_2: 'enterprise' }
  const key = { STRIPE_API_KEY: 'sk_test_1', STRIPE_WEBHOOK_SECRET: 'whsec_1' }

  test('billing stays disabled without its settings, even with variables in the environment', async () => {
    expect((await load({}, key)).billing).toBeUndefined()
  })

  test('key and secrets come from the file or the environment, and must not differ', async () => {
    const stripe = { apiKey: 'sk_test_file', webhookSecret: 'whsec_file' }
    const read = async (env: Record<string, string>, file: object = {}) =>
      (await load({ billing: { stripe: file, products } }, env)).billing?.stripe
    expect(await read({}, stripe)).toMatchObject(stripe)
    expect(await read(key)).toMatchObject({ apiKey: 'sk_test_1', webhookSecret: ['whsec_1'] })
    expect(
      await read({ STRIPE_WEBHOOK_SECRET: ` whsec_1 ,whsec_2,` }, { ...stripe, webhookSecret: ['whsec_1', 'whsec_2'] }),
    ).toMatchObject({ apiKey: 'sk_test_file', webhookSecret: ['whsec_1', 'whsec_2'] })
    expect(await read({ STRIPE_API_KEY: '', STRIPE_WEBHOOK_SECRET: '' }, stripe)).toMatchObject(stripe)
    const differ = 'have different values: remove one of them'
    expect(await errorsOf(load({ billing: { stripe, products } }, key))).toEqual([
      `<file>: billing.stripe.apiKey and STRIPE_API_KEY ${differ}`,
      `<file>: billing.stripe.webhookSecret and STRIPE_WEBHOOK_SECRET ${differ}`,
    ])
  })

  test('reports each missing setting with both of its sources, and none for disabled billing', async () => {
    const missing = [
      'STRIPE_API_KEY or billing.stripe.apiKey is required for billing',
      'STRIPE_WEBHOOK_SECRET or billing.stripe.webhookSecret is required for billing',
    ]
    expect(await errorsOf(load({ billing: { products } }))).toEqual(missing)
    expect(await errorsOf(load({ billing: { products }, satellites: { billing: false } }))).toEqual([])
    expect(await errorsOf(load({ billing: {} }, key))).toEqual([expect.stringMatching(/^<file>: billing\.products: /)])
  })

  test('reports plans that do not exist and a malformed key', async () => {
    const billing = { products: { price_1: 'gold', price_2: 'pro' }, defaultPlan: 'silver' }
    const words = (plan: string) => `plan "${plan}" not found; the plans are free, pro, enterprise`
    expect(await errorsOf(load({ billing }, { ...key, STRIPE_API_KEY: 'pk_test_1' }))).toEqual([
      'STRIPE_API_KEY: must be a secret or restricted key such as sk_test_…',
      `billing.products.price_1: ${words('gold')}`,
      `billing.defaultPlan: ${words('silver')}`,
    ])
    const plans = {
      defaultPlan: 'gold',
      definitions: { gold: { limits: {} }, pro: { limits: {} }, silver: { limits: {} } },
    }
    expect(await errorsOf(load({ billing, plans }, key))).toEqual([])
    expect(await errorsOf(load({ billing, plans: { defaultPlan: 'gold' } }, key))).toEqual([
      expect.stringMatching(/^<file>: plans\.definitions: /),
    ])
  })

  test('reports the source of a malformed signing secret, or of one with blanks around it', async () => {
    const words = 'must be a signing secret: it starts with whsec_ and contains no blanks'
    for (const webhookSecret of [' whsec_1 ', 'whsec_1\n', 'whsec_', '', ['whsec_1', 'whsec_2 '], 'sk_test_1']) {
      const billing = { stripe: { apiKey: 'sk_test_1', webhookSecret }, products }
      expect(await errorsOf(load({ billing }))).toEqual([`billing.stripe.webhookSecret: ${words}`])
    }
    for (const STRIPE_WEBHOOK_SECRET of ['whsec_1 whsec_2', 'whsec_1,none', 'whsec_']) {
      expect(await errorsOf(load({ billing: { products } }, { ...key, STRIPE_WEBHOOK_SECRET }))).toEqual([
        `STRIPE_WEBHOOK_SECRET: ${words}`,
      ])
    }
  })

  test('reports all errors of the configuration together', async () => {
    const billing = {
      stripe: { apiKey: 'pk_test_1', timeoutMs: 1 },
      products: { 'price 1': 'pro' },
      webhook: { path: 'webhooks', allowedIps: ['everywhere'], retentionDays: 0 },
      dunning: { action: 'shout' },
      usage: { 'a b': { meter: 'calls' }, calls: { meter: '', flushMs: 1 } },
      onTenantDelete: 'forget',
      price: 1,
    }
    const errors = await errorsOf(load({ billing, health: { critical: ['weather'] } }, { PORT: 'many' }))
    const at = (path: string) => expect.stringMatching(new RegExp(`^<file>: ${path.replaceAll('.', '\\.')}\\b`))
    for (const path of [
      'billing.stripe.apiKey',
      'billing.stripe.timeoutMs',
      'billing.products.price 1',
      'billing.webhook.path',
      'billing.webhook.allowedIps.0',
      'billing.webhook.retentionDays',
      'billing.dunning.action',
      'billing.usage.a b',
      'billing.usage.calls.meter',
      'billing.usage.calls.flushMs',
      'billing.onTenantDelete',
      'billing',
      'health.critical',
    ]) {
      expect(errors).toContainEqual(at(path))
    }
    expect(errors).toContainEqual(expect.stringMatching(/^PORT: /))
  })

  test('a critical check of billing exists only with billing', async () => {
    const health = { critical: ['billing'] }
    expect(await errorsOf(load({ health }))).toEqual([expect.stringContaining('check "billing" not found')])
    expect((await load({ health, billing: { products } }, key)).health).toMatchObject(health)
  })
})

describe('the service', () => {
  const started: Service[] = []
  afterAll(() => Promise.all(started.map((service) => service.stop())))

  const start = async (role: string, billing: object = {}) => {
    const config = await load(billing, {
      DATABASE_URL: database.url,
      TENANTRY_ADMIN_TOKEN: TOKEN,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ROLE: role,
      STRIPE_API_KEY: provider.apiKey,
      STRIPE_WEBHOOK_SECRET: SECRETS,
      PORT: '0',
      LOG_LEVEL: 'silent',
    })
    const service = await startService(config)
    started.push(service)
    return service
  }
  const configured = (more: object = {}) => {
    const stripe = { endpoint: provider.url, maxNetworkRetries: 0 }
    return { billing: { stripe, products: { [priceId]: 'pro' }, ...more } }
  }
  const call = async (service: Service, method: string, path: string, body?: unknown) => {
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', prefer: 'wait=20' },
      body: body === undefined ? null : JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as any }
  }
  const checks = async (service: Service) => (await call(service, 'GET', '/readyz')).body.checks
  const deliver = (service: Service, path: string, secret: string, from = 0) =>
    provider.deliver(`${service.url}${path}`, provider.events.slice(from), { secret, at: new Date() })

  test('has no billing without its settings', async () => {
    const service = await start('all')
    const { body } = await call(service, 'POST', API, { name: 'Acme' })
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/checkout'],
      ['POST', '/portal'],
      ['POST', '/cancel'],
    ] as const) {
      const response = await call(
        service,
        method,
        `${API}/${body.id}/billing${path}`,
        method === 'GET' ? undefined : {},
      )
      expect(response).toMatchObject({ status: 404, body: { code: 'E_SATELLITE_DISABLED' } })
    }
    expect(new Set(await deliver(service, '/webhooks/stripe', 'whsec_the_new_one'))).toEqual(new Set([404]))
    expect(await checks(service)).not.toHaveProperty('billing')
    await service.stop()
  })

  test('takes a tenant from its checkout to its plan, with events signed by any of the secrets', async () => {
    const service = await start('all', configured())
    const { body: tenant } = await call(service, 'POST', API, { name: 'Acme' })
    const begin = { priceId, successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
    const { status, body } = await call(service, 'POST', `${API}/${tenant.id}/billing/checkout`, begin)
    expect(status).toBe(201)
    const from = provider.events.length
    provider.completeCheckout(body.id)
    expect(new Set(await deliver(service, '/webhooks/stripe', 'whsec_the_old_one', from))).toEqual(new Set([200]))
    expect(new Set(await deliver(service, '/webhooks/stripe', 'whsec_the_new_one', from))).toEqual(new Set([200]))
    expect(new Set(await deliver(service, '/webhooks/stripe', 'whsec_another', from))).toEqual(new Set([401]))
    await eventually(async () => {
      const { body: known } = await call(service, 'GET', `${API}/${tenant.id}/billing`)
      expect(known).toMatchObject({ plan: 'pro', subscription: { status: 'active' } })
    }, WAIT_TIMEOUT_MS)
    expect(await checks(service)).toMatchObject({ billing: { status: 'pass' } })
  })

  test('receives events at the configured path in a serving process, and not in a worker', async () => {
    const webhook = { path: '/from/stripe' }
    const [api, worker] = [await start('api', configured({ webhook })), await start('worker', configured({ webhook }))]
    const event = provider.emit('product.updated', provider.product({ name: 'Another' }))
    const from = provider.events.indexOf(event)
    expect(await deliver(api, '/from/stripe', 'whsec_the_new_one', from)).toEqual([200])
    expect(await deliver(api, '/webhooks/stripe', 'whsec_the_new_one', from)).toEqual([404])
    expect(await deliver(worker, '/from/stripe', 'whsec_the_new_one', from)).toEqual([404])
    for (const service of [api, worker]) expect(await checks(service)).toHaveProperty('billing')
    expect((await fetch(`${api.url}/from/stripe`)).status).toBe(405)
  })

  test('reports a key of the wrong mode together with the other errors', async () => {
    const env = { STRIPE_API_KEY: 'sk_live_1', STRIPE_WEBHOOK_SECRET: 'none', DATABASE_URL: database.url }
    const errors = await load(configured(), env).catch(({ message }) => message)
    expect(errors).toContain('STRIPE_API_KEY: must be a test key unless NODE_ENV is production')
    expect(errors).toContain('STRIPE_WEBHOOK_SECRET: ')
    const allowed = { ...env, STRIPE_WEBHOOK_SECRET: 'whsec_1', STRIPE_ALLOW_LIVE_IN_DEV: 'true' }
    await expect(load(configured(), allowed)).resolves.toMatchObject({ databaseUrl: database.url })
    const production = { ...env, STRIPE_API_KEY: 'sk_test_1', NODE_ENV: 'production' }
    await expect(load(configured(), production)).rejects.toThrow(
      'STRIPE_API_KEY: must be a live key when NODE_ENV is production',
    )
  })
})
