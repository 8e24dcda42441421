/** Runs the commands of webhooks on a tenancy without a worker, with a receiver, and with workers that a test starts. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { TEST_APP_KEY, type TestTenancy } from '../../testing/base/tenancy.ts'
import { DEVELOPMENT, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

/** @param program runs commands with the given environment, in this process or as child processes */
export function openCommands<Program>(program: (environment: Record<string, string>) => Program) {
  let directory: string
  const workers: WebhooksTenancy[] = []
  const subscriptions: string[] = []
  const fixture = { id: '' } as {
    opened: TestTenancy<WebhooksSatellites>
    tenancy: WebhooksTenancy
    tenantry: Program
    receiver: Receiver
    /** Of the tenant. */
    id: string
  }
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tenantry-webhooks-'))
    const config = join(directory, 'tenantry.json')
    await writeFile(config, JSON.stringify({ egress: DEVELOPMENT }))
    fixture.opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api' })
    fixture.tenancy = fixture.opened.tenancy
    fixture.tenantry = program({
      DATABASE_URL: fixture.opened.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_DATA_DIR: join(directory, 'data'),
      TENANTRY_CONFIG: config,
    })
  })
  afterAll(async () => {
    await fixture.opened?.end()
    await rm(directory, { recursive: true, force: true })
  })
  return Object.assign(fixture, {
    /** Call it before each test. */
    async begin(): Promise<void> {
      fixture.receiver = await startReceiver()
      fixture.id = await activeTenant(fixture.tenancy)
    },
    /** Call it after each test. */
    async finish(): Promise<void> {
      await Promise.all(workers.splice(0).map((worker) => worker.stop()))
      // Removes waiting deliveries, because `retry` sends those of all tenants.
      for (const webhookId of subscriptions.splice(0)) await fixture.tenancy.webhooks.delete(fixture.id, webhookId)
      await fixture.receiver.close()
    },
    /** Starts a process that sends until the end of the test. */
    async working(): Promise<WebhooksTenancy> {
      const worker = await fixture.opened.open({ role: 'all' })
      workers.push(worker)
      return worker
    },
    dispatch: (event = 'order.paid', payload: object = { n: 1 }) =>
      fixture.tenancy.webhooks.dispatch(fixture.id, event, payload as Record<string, unknown>),
    async subscribe() {
      const made = await fixture.tenancy.webhooks.create(fixture.id, { url: fixture.receiver.url, events: ['*'] })
      subscriptions.push(made.webhookId)
      return made
    },
    /** Numbers of the received deliveries. */
    ids: (): unknown[] => fixture.receiver.received.map(({ headers }) => headers['x-delivery-id']),
  })
}
