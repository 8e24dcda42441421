/** Findings of the doctor about webhooks, each on a tenancy with that problem. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { eventually, TEST_APP_KEY, type TestTenancy } from '../../testing/base/tenancy.ts'
import { OVERDUE, SENDING } from './queue/doctor-queries.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

/** Opens another process as if the running ones were dead: they do not know its application key, and would prevent the start. */
const openWithKeys = async (keys: { readonly appKey: string; readonly oldAppKeys?: readonly string[] }) => {
  await opened.tenancy.kernel.database.sql(
    `update multitenancy.processes set heartbeat_at = now() - interval '1 minute'`,
  )
  return opened.open(keys)
}

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS
const OVERDUE_MS = 5 * MINUTE_MS + 1_000
const OTHER_APP_KEY = Buffer.alloc(32, 8).toString('base64')

/** Midnight of the current day. */
const first = Math.floor(Date.now() / DAY_MS) * DAY_MS
const clock = fakeClock(new Date(first + DAY_MS / 2))
let opened: TestTenancy<WebhooksSatellites>
/** Sends on request, with two deliveries in flight to one subscription. */
let tenancy: WebhooksTenancy
let receiver: Receiver
let id: string
/** Passes that a test has not awaited. They end when the receiver is closed. */
const sends: Promise<unknown>[] = []

const open = async () => {
  clock.set(new Date(first + DAY_MS / 2))
  opened = await openWebhooks(inject('postgresUrl'), { perSubscription: 2 }, { clock, role: 'api' })
  tenancy = opened.tenancy
}
/** For a test that leaves its tenancy changed; `tenancy` is the shared one again afterwards. */
const openOwn = async () => {
  const shared = opened
  await open()
  id = await activeTenant(tenancy)
  return async () => {
    await opened.end()
    opened = shared
    tenancy = shared.tenancy
  }
}
beforeAll(open)
beforeEach(async () => {
  clock.set(new Date(first + DAY_MS / 2))
  receiver = await startReceiver()
  id = await activeTenant(tenancy)
})
afterEach(async () => {
  await receiver.close()
  await Promise.all(sends.splice(0))
  const tables = ['streams', 'subscriptions', 'messages', 'deliveries', 'attempts', 'counters']
  await tenancy.kernel.database.sql(`truncate ${tables.map((name) => `multitenancy.webhook_${name}`).join(', ')}`)
})
afterAll(() => opened.end())

const checks = async ({ doctor }: Pick<WebhooksTenancy, 'doctor'> = tenancy) =>
  (await doctor.examine()).checks.filter(({ name }) => name.startsWith('webhooks'))

const subscribe = async (owner: string | null = id) =>
  (await tenancy.webhooks.create(owner, { url: `${receiver.url}/a-secret-path`, events: ['*'] })).webhookId

const dispatch = () => tenancy.webhooks.dispatch(id, 'order.paid', {})

test('reports nothing without problems', async () => {
  expect(await checks()).toEqual([])
  await subscribe()
  await subscribe(null)
  const listener = await tenancy.webhooks.listen({ tenantId: id, url: receiver.url, onSettled: () => undefined })
  receiver.respondWith(() => ({ status: 500 }))
  await dispatch()
  await tenancy.webhooks.retry()
  await dispatch()
  clock.advance(5 * MINUTE_MS - 1_000)
  expect(await checks()).toEqual([])
  await listener.close()
})

describe('overdue deliveries', () => {
  test('are an error if no worker sends', async () => {
    await subscribe()
    await subscribe(null)
    await dispatch()
    clock.advance(OVERDUE_MS)
    const since = '\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z'
    expect(await checks()).toMatchObject([
      {
        severity: 'error',
        code: 'webhooks.nobody-sends',
        message: expect.stringMatching(
          new RegExp(`^No worker sends webhooks: 2 deliveries are overdue since ${since}\\.$`),
        ),
        remedy: expect.stringContaining('tenantry tenant:webhooks:retry'),
      },
    ])
    await tenancy.webhooks.retry()
    expect(await checks()).toEqual([])
  })

  test('are an error if their worker has crashed', async () => {
    receiver.respondWith(() => undefined)
    await subscribe()
    await dispatch()
    sends.push(tenancy.webhooks.retry())
    await eventually(() => expect(receiver.received).toHaveLength(1))
    expect(await checks()).toEqual([])
    clock.advance(MINUTE_MS)
    expect(await checks()).toEqual([])
    clock.advance(OVERDUE_MS)
    expect(await checks()).toMatchObject([
      { code: 'webhooks.nobody-sends', message: expect.stringMatching(/: 1 delivery is overdue since/) },
    ])
  })

  test('are a warning if a receiver is slow or unavailable', async () => {
    const other = await opened.open({ role: 'api' })
    const webhookId = await subscribe()
    for (let n = 0; n < 5; n++) await dispatch()
    clock.advance(OVERDUE_MS)
    receiver.respondWith(() => undefined)
    sends.push(other.webhooks.retry())
    await eventually(() => expect(receiver.received).toHaveLength(2))
    expect(await checks()).toMatchObject([
      {
        severity: 'warn',
        code: 'webhooks.behind',
        message: expect.stringContaining(` to subscription ${webhookId} of tenant "${id}" (${receiver.url}).`),
        tenantId: id,
      },
    ])
    expect(JSON.stringify(await checks())).not.toContain('a-secret-path')
  })

  test('are found without reading settled deliveries', async () => {
    const { database } = tenancy.kernel
    await database.sql(
      `insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, created_at)
       select overlay(gen_random_uuid()::text placing left(multitenancy.webhook_id_floor(now())::text, 13) from 1 for 13)::uuid,
         gen_random_uuid(), gen_random_uuid(), $1, $1, 'order.paid', 'delivered', false, now() from generate_series(1, 5000)`,
      [id],
    )
    await database.sql('analyze multitenancy.webhook_deliveries')
    for (const question of [OVERDUE, SENDING]) {
      const plan = await database.transaction(async () => {
        await database.sql(`select set_config('enable_seqscan', 'off', true)`)
        const { rows } = await database.sql(`explain ${question.replaceAll('$1', '0').replaceAll('$2', '300')}`)
        return rows.map((row) => row['QUERY PLAN']).join('\n')
      })
      expect(plan).toMatch(/Index.* on webhook_deliveries_/)
      expect(plan).not.toMatch(/Seq Scan on webhook_deliveries/)
    }
  })
})

describe('subscriptions', () => {
  test('are a warning if they were disabled automatically', async () => {
    receiver.respondWith(() => ({ status: 410 }))
    const [own, hosts] = [await subscribe(), await subscribe(null)]
    await dispatch()
    await tenancy.webhooks.retry()
    const message = (webhookId: string, of: string) =>
      `Disabled: subscription ${webhookId} of ${of} (${receiver.url}). Its receiver responded with 410.`
    const found = { severity: 'warn', code: 'webhooks.disabled', remedy: expect.stringContaining('Enable it') }
    await eventually(async () => {
      expect(await checks()).toEqual([
        expect.objectContaining({ ...found, message: message(hosts, 'the host') }),
        expect.objectContaining({ ...found, message: message(own, `tenant "${id}"`), tenantId: id }),
      ])
    })
    expect((await checks())[0]).not.toHaveProperty('tenantId')

    await tenancy.webhooks.delete(null, hosts)
    await tenancy.webhooks.update(id, own, { enabled: true })
    expect(await checks()).toEqual([])
    await tenancy.webhooks.update(id, own, { enabled: false })
    expect(await checks()).toEqual([])
  })

  test('are a warning after a day of failures only, unless their tenant is deleted', async () => {
    receiver.respondWith(() => ({ status: 500 }))
    const webhookId = await subscribe()
    await dispatch()
    await tenancy.webhooks.retry()
    const failing = async () => (await checks()).filter(({ code }) => code === 'webhooks.failing')
    clock.advance(DAY_MS - 1_000)
    expect(await failing()).toEqual([])
    clock.advance(2_000)
    expect(await failing()).toMatchObject([
      {
        severity: 'warn',
        message: expect.stringMatching(`^Only failures since 2.*: subscription ${webhookId} of tenant "${id}" `),
        tenantId: id,
      },
    ])
    await tenancy.tenants.delete(id)
    expect(await failing()).toEqual([])
  })
})

describe('secrets of subscriptions', () => {
  beforeEach(openOwn) // its passwords are encrypted with the other key, too

  test('are a finding when they are encrypted with another application key', async () => {
    await subscribe()
    const rotated = await openWithKeys({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] })
    expect(await checks(rotated)).toMatchObject([
      {
        severity: 'info',
        code: 'webhooks.old-key',
        message: 'The secret of 1 subscription is encrypted with a former application key.',
      },
    ])
    const lost = await openWithKeys({ appKey: OTHER_APP_KEY })
    const webhookId = (await rotated.webhooks.create(id, { url: receiver.url, events: ['*'] })).webhookId
    expect(await checks(lost)).toMatchObject([{ severity: 'error', code: 'webhooks.lost-key' }])
    expect(await checks()).toMatchObject([{ severity: 'error', code: 'webhooks.lost-key' }])
    await rotated.webhooks.delete(id, webhookId)
    expect(await checks()).toEqual([])
  })
})
