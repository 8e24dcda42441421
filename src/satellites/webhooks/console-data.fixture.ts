/** Subscriptions and deliveries for tests of the console: healthy, failing, disabled, of the host, and long names. */
import { type OpenedConsole, openConsole } from '../../../test/console/console.fixture.ts'
import { startReceiver } from '../../../test/support/receiver.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { webhooks } from './index.ts'
import { DEVELOPMENT } from './webhooks.fixture.ts'

/** Two attempts, 10 s apart. */
const SETTLED_WITHIN_MS = 90_000

const RESPONSES: readonly [path: RegExp, status: number, body: string][] = [
  [/^\/hooks/, 200, '{"received":true}'],
  [/^\/down/, 503, '{"error":"database unavailable","retry":true}'],
  [/^\/markup/, 500, '<script>alert(1)</script><h1>Internal error</h1>'],
]

export interface ConsoleData extends AsyncDisposable {
  readonly console: OpenedConsole
  /** Responses of `/down` from now on. */
  recover(): void
  readonly ids: Readonly<
    Record<'healthy' | 'failing' | 'disabled' | 'host' | 'delivered' | 'failed' | 'ofHost', string>
  >
}

/** @param postgresUrl `inject('postgresUrl')` */
export async function openConsoleData(postgresUrl: string): Promise<ConsoleData> {
  let isDown = true
  const known = new Set<unknown>()
  const receiver = await startReceiver(({ path, headers }) => {
    const [, status = 404, body = ''] = RESPONSES.find(([one]) => one.test(path)) ?? []
    if (path === '/down' && !isDown) return { body: '{"received":true}' }
    const id = headers['webhook-id']
    const isFirst = !known.has(id)
    known.add(id)
    return { status: path === '/down' && isFirst ? 500 : status, body, headers: { 'content-type': 'application/json' } }
  })
  const console = await openConsole(postgresUrl, [webhooks({ maxAttempts: 2 })], {}, { egress: DEVELOPMENT })
  const { call } = console
  await call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  await call('POST', '/tenants', { id: 'globex', name: 'Globex Corporation' })
  const subscribe = async (path: string, url: string, events: string[], more = {}): Promise<string> =>
    (await call('POST', path, { url: receiver.url + url, events, ...more })).webhookId
  const dispatch = (event: string, payload: object) => call('POST', '/tenants/acme/dispatch', { event, payload })

  const healthy = await subscribe('/tenants/acme/webhooks', '/hooks', ['order.*', 'invoice.created', 'user.*'], {
    description: 'Warehouse',
  })
  const failing = await subscribe('/tenants/acme/webhooks', '/down', ['order.paid'], { description: 'Accounting' })
  const long = `/markup/${'a-long-path-of-a-receiver-'.repeat(6)}`
  const disabled = await subscribe('/tenants/acme/webhooks', long, ['shipment.label_created_by_an_external_carrier'])
  const host = await subscribe('/webhooks', '/hooks/host', ['order.paid'], { description: 'CRM', envelope: true })
  for (let number = 1; number <= 6; number++) {
    await dispatch('order.paid', { orderId: `${1000 + number}`, amount: 12.5 * number, currency: 'EUR' })
    await dispatch('order.created', { orderId: `${1000 + number}`, lines: [{ sku: 'A-1', quantity: number }] })
  }
  await dispatch('shipment.label_created_by_an_external_carrier', { label: '\u202etxt.exe <b>bold</b>' })
  const deliveriesOf = async (path: string, state: string): Promise<any[]> =>
    (await call('GET', `${path}/deliveries?state=${state}`)).data
  await eventually(async () => {
    const failed = await deliveriesOf(`/tenants/acme/webhooks/${failing}`, 'failed')
    const delivered = await deliveriesOf(`/tenants/acme/webhooks/${healthy}`, 'delivered')
    const toHost = await deliveriesOf(`/webhooks/${host}`, 'delivered')
    const markup = await deliveriesOf(`/tenants/acme/webhooks/${disabled}`, 'failed')
    if ([failed.length, delivered.length, toHost.length, markup.length].join() !== '6,12,6,1')
      throw new Error('not settled')
  }, SETTLED_WITHIN_MS)
  await call('PUT', `/tenants/acme/webhooks/${disabled}`, { enabled: false })
  const first = async (path: string, state: string): Promise<string> => (await deliveriesOf(path, state))[0].id
  return {
    console,
    recover: () => {
      isDown = false
    },
    ids: {
      healthy,
      failing,
      disabled,
      host,
      delivered: await first(`/tenants/acme/webhooks/${healthy}`, 'delivered'),
      failed: await first(`/tenants/acme/webhooks/${failing}`, 'failed'),
      ofHost: await first(`/webhooks/${host}`, 'delivered'),
    },
    async [Symbol.asyncDispose]() {
      await console[Symbol.asyncDispose]()
      await receiver.close()
    },
  }
}
