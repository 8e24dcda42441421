/** Secrets of subscriptions: signatures of test events, rotation, and their absence from logs and rows. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startReceiver } from '../../../../test/support/receiver.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { satellitesOn } from '../../../service/main.ts'
import type { Satellite } from '../../../tenancy/satellite.ts'
import type { Tenancy } from '../../../tenancy/tenancy.ts'
import { eventually, type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import { verifyWebhook } from '../verify.ts'
import { DEVELOPMENT, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { apiOf } from '../webhooks-api.fixture.ts'
import { actionAt, BODY, MADE_SECRET, openSubscriptions, refusal, type Side } from './subscriptions.fixture.ts'

const fixture = openSubscriptions()
const { SIDES, clock, call, tenantSide, created, recordedOf } = fixture

const DAY_MS = 86_400_000

describe('a test event', () => {
  test.each(SIDES)('of %s is sent to that subscription only, regardless of its patterns', async (_who, side) => {
    const { owner, path } = await side()
    const url = `${fixture.receiver.url}/test-${owner ?? 'host'}`
    const { webhookId, secret } = await created({ owner, path }, { url, events: ['nothing.of_this'] })
    await created({ owner, path }, { url: `${url}-other`, events: ['nothing.of_this'] })
    const { status, headers, json } = await call('POST', `${path}/${webhookId}/test`, { body: { event: 'order.paid' } })
    expect(status).toBe(202)
    expect(headers.get('location')).toBe(`/admin/multitenancy${path}/${webhookId}/deliveries/${json.id}`)
    expect(json).toMatchObject({ webhookId, tenantId: owner, event: 'order.paid', state: 'pending', attemptCount: 0 })
    const byItself = await fixture.tenancy.webhooks.test(owner, webhookId)
    await fixture.tenancy.webhooks.retry()
    const received = fixture.receiver.received.filter((one) => one.path.startsWith(new URL(url).pathname))
    expect(received.map((one) => one.path)).toEqual([new URL(url).pathname, new URL(url).pathname])
    const verified = received.map(({ body, headers }) => verifyWebhook(body, headers, secret, { now: clock.now() }))
    expect(new Map(verified.map(({ id, event, payload }) => [id, { event, payload }]))).toEqual(
      new Map(
        [[json.id, 'order.paid'] as const, [byItself.id, 'webhook.test'] as const].map(([id, event]) => [
          id,
          { event, payload: { test: true, event, tenantId: owner, occurredAt: clock.now().toISOString() } },
        ]),
      ),
    )
    expect(recordedOf(webhookId).filter(({ action }) => action === actionAt({ owner }, 'test'))).toMatchObject([
      { tenantId: owner, after: { event: 'order.paid', deliveryId: json.id } },
      { tenantId: owner, after: { event: 'webhook.test', deliveryId: byItself.id } },
    ])
  })

  test.each(SIDES)('of %s is rejected while the subscription is disabled', async (_who, side) => {
    const { owner, path } = await side()
    const { webhookId } = await created({ owner, path }, { ...BODY, enabled: false })
    expect(await call('POST', `${path}/${webhookId}/test`)).toMatchObject(refusal(409, 'E_WEBHOOK_DISABLED'))
    expect((await call('GET', `${path}/${webhookId}/deliveries`)).json.data).toEqual([])
  })
})

describe('a secret', () => {
  const STANDARD = `whsec_${Buffer.alloc(24, 3).toString('base64')}`

  test.each(SIDES)('of %s is not in the response to a repeated Idempotency-Key', async (_who, side) => {
    const { path } = await side()
    const headers = { 'idempotency-key': `key-${path}` }
    const repeated = async (at: string, body: object) => {
      const [first, second] = [await call('POST', at, { body, headers }), await call('POST', at, { body, headers })]
      const { secret, ...shown } = first.json
      expect(secret).toEqual(expect.any(String))
      expect(second).toMatchObject({ status: first.status })
      expect(second.headers.get('idempotency-replayed')).toBe('true')
      expect(second.json).toEqual(shown)
      return shown.webhookId
    }
    const webhookId = await repeated(path, BODY)
    await repeated(`${path}/${webhookId}/rotate-secret`, {})
  })

  test.each(['sixteen-letters!', 'x'.repeat(256), 'with"quotes\'and<angles>', STANDARD])(
    'may be chosen: %s',
    async (secret) => {
      const { owner } = await tenantSide()
      expect((await fixture.tenancy.webhooks.create(owner, { ...BODY, secret })).secret).toBe(secret)
    },
  )

  test.each([
    'hunter2-hunter2',
    'hunter2-hunter2 hunter2',
    'hunter2-hunter2\r\nx-evil: 1',
    'hunter2-hunter2-hüntêr',
    `hunter2${'x'.repeat(250)}`,
    'whsec_hunter2-hunter2',
    `whsec_${Buffer.alloc(23, 3).toString('base64')}hunter2`,
    `whsec_${Buffer.alloc(65, 3).toString('base64')}hunter2`,
  ])('is rejected if it is %j, with an error that does not contain it', async (secret) => {
    const { owner, path } = fixture.empty
    const response = await call('POST', path, { body: { ...BODY, secret } })
    expect(response).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(response.json.errors).toEqual([{ path: 'secret', message: expect.any(String) }])
    expect(response.text).not.toContain('hunter2')
    await expect(fixture.tenancy.webhooks.create(owner, { ...BODY, secret })).rejects.toSatisfy(
      (error: Error) => !`${error.message}${error.stack}${JSON.stringify(error)}`.includes('hunter2'),
    )
    expect((await call('GET', path)).json.data).toEqual([])
  })

  const rotated = async ({ path }: Side, webhookId: string, body?: object) =>
    (await call('POST', `${path}/${webhookId}/rotate-secret`, { body })).json
  /** Returns the secrets that have signed the next delivery. */
  async function signedBy({ owner }: Side, webhookId: string, secrets: readonly string[]) {
    await fixture.tenancy.webhooks.test(owner, webhookId)
    await fixture.tenancy.webhooks.retry()
    const { body, headers } = fixture.receiver.received.at(-1) ?? expect.fail('nothing was received')
    return secrets.filter((secret) => {
      try {
        return verifyWebhook(body, headers, secret, { now: clock.now() })
      } catch {
        return false
      }
    })
  }

  test.each(SIDES)(
    'of %s is rotated, and the previous one also signs until its grace period ends',
    async (_who, side) => {
      const where = await side()
      const { webhookId, secret: first } = await created(where, {
        url: `${fixture.receiver.url}/rotation`,
        events: ['a.b'],
      })
      expect(await signedBy(where, webhookId, [first])).toEqual([first])
      const response = await call('POST', `${where.path}/${webhookId}/rotate-secret`, { body: { graceSeconds: 60 } })
      expect(response).toMatchObject({ status: 200, json: { webhookId, tenantId: where.owner, secretSet: true } })
      const { secret: second } = response.json
      expect(second).toMatch(MADE_SECRET)
      expect(second).not.toBe(first)
      expect(await signedBy(where, webhookId, [first, second])).toEqual([first, second])
      clock.advance(59_999)
      expect(await signedBy(where, webhookId, [first, second])).toEqual([first, second])
      clock.advance(1)
      expect(await signedBy(where, webhookId, [first, second])).toEqual([second])
      expect(recordedOf(webhookId).filter(({ action }) => action === actionAt(where, 'rotateSecret'))).toEqual([
        { action: actionAt(where, 'rotateSecret'), tenantId: where.owner, before: null, after: { graceSeconds: 60 } },
      ])
    },
  )

  test('is rotated with a grace period of a day by default, or the given one', async () => {
    const side = await tenantSide()
    const { webhookId, secret: first } = await created(side, {
      url: `${fixture.receiver.url}/rotation`,
      events: ['a.b'],
    })
    const { secret: second } = await rotated(side, webhookId)
    clock.advance(DAY_MS - 1)
    expect(await signedBy(side, webhookId, [first, second])).toEqual([first, second])
    const { secret: third } = await rotated(side, webhookId, { graceSeconds: 30 })
    expect(await signedBy(side, webhookId, [first, second, third])).toEqual([second, third])
    const { secret: fourth } = await rotated(side, webhookId, { graceSeconds: 0 })
    expect(await signedBy(side, webhookId, [first, second, third, fourth])).toEqual([fourth])
    expect((await fixture.tenancy.webhooks.rotateSecret(side.owner, webhookId)).secret).toMatch(MADE_SECRET)
  })

  test.each([
    { graceSeconds: -1 },
    { graceSeconds: 0.5 },
    { graceSeconds: 30 * 86_400 + 1 },
    { graceSeconds: '60' },
    { secret: 'x'.repeat(20) },
    [],
  ])('is not rotated by the invalid body %j', async (body) => {
    const side = await tenantSide()
    const { webhookId, secret } = await created(side, { url: `${fixture.receiver.url}/rotation`, events: ['a.b'] })
    const rejected = await call('POST', `${side.path}/${webhookId}/rotate-secret`, { body })
    expect(rejected).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await signedBy(side, webhookId, [secret])).toEqual([secret])
  })
})

describe('with every satellite, every line of the log and every row of the database', () => {
  const OWN_SECRET = 'hunter2-hunter2-hunter2'
  let whole: TestTenancy<readonly Satellite[]>
  let core: Tenancy & { readonly webhooks: WebhooksTenancy['webhooks'] }
  const lines: string[] = []
  beforeAll(async () => {
    whole = await testTenancy<readonly Satellite[]>(inject('postgresUrl'), {
      satellites: satellitesOn({ satellites: {} }),
      egress: DEVELOPMENT,
      logger: createLogger({ level: 'trace', write: (line) => void lines.push(line) }),
    })
    core = whole.tenancy as typeof core
  })
  afterAll(() => whole?.end())

  test('contains no secret', async () => {
    const send = apiOf(core)
    const silent = await startReceiver(() => ({ status: 500, body: 'no' }))
    await core.tenants.create({ id: 'acme', name: 'Acme' })
    const secrets: string[] = [OWN_SECRET]
    for (const path of ['/tenants/acme/webhooks', '/webhooks']) {
      const headers = { 'idempotency-key': 'one' }
      const body = { url: `${silent.url}/`, events: ['*'], secret: OWN_SECRET }
      const { webhookId } = (await send('POST', path, { body, headers })).json
      const one = `${path}/${webhookId}`
      const rotated = (await send('POST', `${one}/rotate-secret`, { headers })).json
      const made = (await send('POST', path, { body: { ...body, secret: undefined }, headers: {} })).json
      secrets.push(rotated.secret, made.secret)
      await send('PUT', one, { body: { secret: OWN_SECRET } })
      await send('PUT', one, { body: { description: 'changed' } })
      await send('POST', path, { body: { ...body, secret: `${OWN_SECRET}\n` } })
      await send('POST', path, { body: `{"secret":"${OWN_SECRET}"` })
      const tested = await send('POST', `${one}/test`, { headers: { prefer: 'wait=10' } })
      expect(tested.json).toMatchObject({ state: 'retry_scheduled', lastStatus: 500 })
      const detail = await send('GET', `${one}/deliveries/${tested.json.id}`)
      expect(detail.json.attempts[0].requestHeaders['webhook-signature']).toMatch(/^v1,.+ v1,.+$/)
      for (const secret of secrets) expect(detail.text).not.toContain(secret)
      // As after the loss of the application key.
      await core.kernel.database.sql('update multitenancy.webhook_subscriptions set secret = $1 where id = $2', [
        core.kernel.secrets.encrypt(OWN_SECRET, 'something else'),
        webhookId,
      ])
      await send('POST', `${one}/test`)
      await eventually(() => expect(lines.filter((line) => isUndecryptable(line, webhookId))).toHaveLength(1))
      expect((await send('DELETE', one)).status).toBe(204)
    }
    await core.webhooks.retry()
    await silent.close()

    const kept = await everyRow(core)
    expect(kept).toContain('webhooks.rotateSecret')
    expect(kept).toContain('webhook.test')
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(20)
      for (const spelling of spellingsOf(secret)) {
        expect(lines.filter((line) => line.includes(spelling))).toEqual([])
        expect(kept.includes(spelling)).toBe(false)
      }
    }
  })

  const isUndecryptable = (line: string, webhookId: string) =>
    line.includes('cannot decrypt the secret of a webhook subscription') && line.includes(webhookId)
  const spellingsOf = (secret: string) => [
    secret,
    secret.replace('whsec_', ''),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret.replace('whsec_', ''), 'base64').toString('hex'),
  ]
})

async function everyRow({ kernel: { database } }: Tenancy): Promise<string> {
  const { rows: tables } = await database.sql(
    `select format('%I.%I', relnamespace::regnamespace, relname) as name from pg_class
     where relkind = 'r' and relnamespace in ('multitenancy'::regnamespace, 'multitenancy_jobs'::regnamespace)`,
  )
  const texts: string[] = []
  for (const { name } of tables) {
    const { rows } = await database.sql(`select string_agg(t::text, E'\\n') as text from ${name} t`)
    texts.push(rows[0].text ?? '')
  }
  return texts.join('\n')
}
