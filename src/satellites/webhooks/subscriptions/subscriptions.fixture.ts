/** Subscriptions of tenants and of the host over HTTP, and the changes that are recorded. */
import { afterAll, beforeAll, expect, inject } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { activeTenant, apiOf, type Call, changesOf, createdTenant } from '../webhooks-api.fixture.ts'

export const MADE_SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/
export const BODY = { url: 'https://hooks.example.com/a?b=c', events: ['order.*'] }

export interface Side {
  readonly owner: string | null
  /** Path of its subscriptions. */
  readonly path: string
}

/** Health of a subscription without deliveries. */
export const NO_DELIVERIES = { failingSince: null, lastDeliveredAt: null, waiting: 0, disabledAt: null }

/** Recorded changes by the name of the operation. */
export const actionAt = ({ owner }: Pick<Side, 'owner'>, what: string) =>
  `${owner === null ? 'hostWebhooks' : 'webhooks'}.${what}`
export const refusal = (status: number, code: string) => ({ status, json: { code } })
export const inCode = (code: string) => expect.objectContaining({ code })

/** For the tests of one file. */
export function openSubscriptions() {
  const clock = clockOfToday()
  let opened: TestTenancy<WebhooksSatellites>
  let changes: ReturnType<typeof changesOf>
  let api: Call
  const fixture = {} as {
    opened: typeof opened
    tenancy: WebhooksTenancy
    receiver: Receiver
    /** Id without a subscription. */
    empty: Side
  }
  const call: Call = (...request) => api(...request)
  const sideOf = (owner: string): Side => ({ owner, path: `/tenants/${owner}/webhooks` })
  const activeSide = async () => sideOf(await activeTenant(opened.tenancy))
  const hostSide = async (): Promise<Side> => ({ owner: null, path: '/webhooks' })

  beforeAll(async () => {
    opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
    changes = changesOf(opened.tenancy)
    api = apiOf(opened.tenancy)
    const receiver = await startReceiver()
    Object.assign(fixture, { opened, tenancy: opened.tenancy, receiver, empty: await activeSide() })
  })
  afterAll(async () => {
    await fixture.receiver?.close()
    await opened?.end()
  })

  return Object.assign(fixture, {
    clock,
    call,
    tenantSide: async () => sideOf(await createdTenant(opened.tenancy)),
    activeSide,
    hostSide,
    SIDES: [
      ['a tenant', activeSide],
      ['the host', hostSide],
    ] as const,
    created: async ({ path }: Side, body: object = BODY) => (await call('POST', path, { body })).json,
    recordedOf: (webhookId: string) =>
      changes
        .filter(({ target }) => target === `webhook:${webhookId}`)
        .map(({ action, tenantId, before, after }) => ({ action, tenantId, before, after })),
  })
}
