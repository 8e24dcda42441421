/** The commands of this satellite as processes: killed, interrupted, and beside each other. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { type Child, type Program, programWith } from '../../cli/program.fixture.ts'
import { fakeClock } from '../../testing/clock.ts'
import { type Receiver, startReceiver } from '../../testing/receiver.ts'
import { eventually, TEST_APP_KEY, type TestTenancy } from '../../testing/tenancy.ts'
import { DEVELOPMENT, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant, deliveriesOf } from './webhooks-api.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let directory: string
let opened: TestTenancy<WebhooksSatellites>
/** Sends nothing by itself. */
let tenancy: WebhooksTenancy
let tenantry: Program
let receiver: Receiver
let id: string
const workers: WebhooksTenancy[] = []
const subscriptions: string[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-webhooks-'))
  const config = join(directory, 'tenantry.json')
  await writeFile(config, JSON.stringify({ egress: DEVELOPMENT }))
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api' })
  tenancy = opened.tenancy
  tenantry = programWith({
    DATABASE_URL: opened.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
  })
}, 60_000)
beforeEach(async () => {
  receiver = await startReceiver()
  id = await activeTenant(tenancy)
})
afterEach(async () => {
  await tenantry.killAll()
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
  // What is left of theirs is not sent any more: `retry` is for all tenants.
  for (const webhookId of subscriptions.splice(0)) await tenancy.webhooks.delete(id, webhookId)
  await receiver.close()
})
afterAll(async () => {
  await opened?.end()
  await rm(directory, { recursive: true, force: true })
})

/** A process that sends, until the test is over. */
async function working(): Promise<WebhooksTenancy> {
  const worker = await opened.open({ role: 'all' })
  workers.push(worker)
  return worker
}

const dispatch = (event = 'order.paid', payload: object = { n: 1 }) =>
  tenancy.webhooks.dispatch(id, event, payload as Record<string, unknown>)

async function subscribe() {
  const made = await tenancy.webhooks.create(id, { url: receiver.url, events: ['*'] })
  subscriptions.push(made.webhookId)
  return made
}

const ids = (): unknown[] => receiver.received.map(({ headers }) => headers['x-delivery-id'])

async function interrupt(child: Child) {
  child.process.kill('SIGINT')
  return child.ended
}

describe('tenant:webhooks:listen', () => {
  async function listening() {
    const child = tenantry.start(['tenant:webhooks:listen', id, '--forward', `${receiver.url}/hooks`])
    await child.says(/signed with (\S+)\n/)
    return child
  }

  test('killed, it is gone a minute later', async () => {
    const clock = fakeClock(new Date())
    const later = await opened.open({ clock })
    const child = await listening()
    child.process.kill('SIGKILL')
    await child.ended
    clock.set(new Date())
    const [deliveryId = ''] = await later.webhooks.dispatch(id, 'order.paid', {})
    const { rows } = await tenancy.kernel.database.sql(
      'select webhook_id as "webhookId" from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    clock.set(new Date(Date.now() + 61_000))
    expect(await later.webhooks.dispatch(id, 'order.paid', {})).toEqual([])
    await later.webhooks.retry()
    const left = await deliveriesOf(tenancy, id, rows[0].webhookId)
    expect(left).toMatchObject([{ id: deliveryId, state: 'failed', attemptCount: 0 }])
    expect(receiver.received).toEqual([])
  })
})

describe('tenant:webhooks:tail', () => {
  test('ends quietly when nobody reads any more', async () => {
    await subscribe()
    await dispatch()
    await tenancy.webhooks.retry()
    const child = tenantry.start(['tenant:webhooks:tail', id, '--since', '5'])
    await child.says(/attempt 1/)
    child.process.stdout.destroy()
    await dispatch()
    await tenancy.webhooks.retry()
    expect(await child.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('tenant:webhooks:retry', () => {
  const MANY = 200

  async function sent(child: Child): Promise<number> {
    const { code, stdout, stderr } = await child.ended
    expect({ code, stderr }, stderr).toEqual({ code: 0, stderr: '' })
    return JSON.parse(stdout).sent
  }

  test('twice at once, and beside a worker that begins meanwhile, sends each once', async () => {
    const { webhookId } = await subscribe()
    const dispatched = (await Promise.all(Array.from({ length: MANY }, () => dispatch()))).flat()
    const two = [0, 1].map(() => tenantry.start(['tenant:webhooks:retry', '--json']))
    await eventually(() => expect(receiver.received.length).toBeGreaterThan(0), 30_000)
    await working()
    const [first = 0, second = 0] = await Promise.all(two.map(sent))
    await eventually(() => expect(receiver.received).toHaveLength(MANY))
    expect(first + second).toBeLessThanOrEqual(MANY)
    expect(ids().toSorted()).toEqual(dispatched.toSorted())
    await eventually(async () => {
      const all = await deliveriesOf(tenancy, id, webhookId)
      expect(all.filter(({ state, attemptCount }) => state === 'delivered' && attemptCount === 1)).toHaveLength(MANY)
    })
  })

  test('interrupted, it gives back what it has not sent', async () => {
    receiver.answers(() => undefined)
    const { webhookId } = await subscribe()
    for (let n = 0; n < 20; n++) await dispatch()
    const child = tenantry.start(['tenant:webhooks:retry'])
    await eventually(() => expect(receiver.received.length).toBe(16), 30_000)
    expect((await interrupt(child)).code).toBe(130)
    const states = (await deliveriesOf(tenancy, id, webhookId)).map(({ state }) => state)
    expect(states.filter((state) => state === 'pending').length).toBeGreaterThanOrEqual(4)
  })

  test('what is broken off when it stops does not count as sent', async () => {
    await subscribe()
    receiver.answers(() => (receiver.received.length === 1 ? {} : undefined))
    await dispatch()
    await dispatch()
    const { webhooks } = await opened.open({ role: 'api' })
    const retrying = webhooks.retry()
    await eventually(() => expect(receiver.received).toHaveLength(2))
    await webhooks.stop()
    expect(await retrying).toBe(1)
  })
})
