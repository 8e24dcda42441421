/** Cases of this satellite for coverage.test.ts: the resource of a tenant, and the same resource of the host. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect } from 'vitest'
import type { Case, Part, Row, Runner } from '../../../test/contract/row.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import type { WebhooksTenancy } from './webhooks.fixture.ts'

const UNKNOWN = '00000000-0000-7000-8000-000000000000'
const absent = { tenant: 'none' } as const
const ofUnknown: Case = { params: { webhookId: UNKNOWN } }
const likeUnknown: Case = { query: { sameResponseAs: UNKNOWN } }
const noDelivery: Case = { params: { deliveryId: UNKNOWN } }
const body = { url: '{receiver}', events: ['order.*'], description: 'Bookkeeping' } as const
/** Rejected even if private networks are allowed. */
const FORBIDDEN_URL = 'http://169.254.169.254/latest/meta-data/'

const subscribed = (path: string, url = '{receiver}', events = '"order.*"') =>
  `POST ${path} {"url":"${url}","events":[${events}]}`
const tested = (path: string) => `POST ${path}/{webhookId}/test {"event":"order.paid"}`

/** @param inTenant true for the resource of a tenant, which may be absent or deleted */
function rowsOf(names: string, path: string, inTenant: boolean): Record<string, Row> {
  const base: Case = inTenant ? {} : absent
  const given = [subscribed(path)]
  const withDelivery = { ...base, given: [...given, tested(path)], params: { deliveryId: '{given}' } }
  const disabled = { ...base, given: [...given, `PUT ${path}/{webhookId} {"enabled":false}`] }
  const disabledWithDelivery = { ...withDelivery, given: [...withDelivery.given, ...disabled.given.slice(1)] }
  const notFound = { E_WEBHOOK_NOT_FOUND: { ...base, ...ofUnknown } }
  const noTenant = (one: Case): Row['also'] => (inTenant ? { E_TENANT_NOT_FOUND: { ...absent, ...one } } : {})
  const deleted = (one: Case): Row['also'] =>
    inTenant ? { E_TENANT_STATE: { ...one, given: [...(one.given ?? []), 'DELETE /tenants/{id}'] } } : {}
  return {
    [`${names}s.list`]: { success: { ...base, given }, wrong: { query: { enabled: 'true' } }, also: noTenant({}) },
    [`${names}s.create`]: {
      success: { ...base, body },
      wrong: { body: { ...body, events: ['Order'] } },
      also: {
        ...noTenant({ body }),
        ...deleted({ body }),
        E_URL_NOT_ALLOWED: { ...base, body: { ...body, url: FORBIDDEN_URL } },
      },
    },
    [`${names}s.get`]: {
      success: { ...base, given },
      wrong: { params: { webhookId: 'newest' } },
      also: { ...noTenant(ofUnknown), ...notFound },
    },
    [`${names}s.update`]: {
      success: { ...base, given, body: { events: ['*'], enabled: false } },
      wrong: { body: { secret: 'a-secret-of-the-subscriber' } },
      also: {
        ...noTenant({ ...ofUnknown, body: {} }),
        ...deleted({ given, body: {} }),
        E_WEBHOOK_NOT_FOUND: { ...base, ...ofUnknown, body: {} },
        E_URL_NOT_ALLOWED: { ...base, given, body: { url: FORBIDDEN_URL } },
      },
    },
    [`${names}s.delete`]: {
      success: { ...base, given },
      wrong: { params: { webhookId: 'newest' } },
      also: { ...noTenant(ofUnknown), ...deleted({ given }), ...notFound },
    },
    [`${names}s.rotateSecret`]: {
      success: { ...base, given, body: { graceSeconds: 60 } },
      wrong: { body: { graceSeconds: -1 } },
      also: { ...noTenant(ofUnknown), ...deleted({ given }), ...notFound },
    },
    [`${names}s.test`]: {
      success: { ...base, given, body: { event: 'order.paid' } },
      wrong: { body: { event: 'order.*' } },
      also: { ...noTenant(ofUnknown), ...deleted({ given }), ...notFound, E_WEBHOOK_DISABLED: disabled },
    },
    [`${names}s.replayFailed`]: {
      success: { ...base, given, body: { from: '2026-01-01', dryRun: true } },
      wrong: { body: { from: '2026-01-02', to: '2026-01-01' } },
      also: { ...noTenant(ofUnknown), ...notFound, E_WEBHOOK_DISABLED: disabled },
    },
    [`${names}s.replayAllFailed`]: {
      success: { ...base, given, body: { from: '2026-01-01', dryRun: true } },
      wrong: { body: { from: '2026-01-02', to: '2026-01-01' } },
      also: noTenant({}),
    },
    [`${names}s.replayMissing`]: {
      success: { ...base, given, body: { from: '2026-01-01', dryRun: true } },
      wrong: { body: { dryRun: 'true' } },
      also: { ...noTenant(ofUnknown), ...deleted({ given }), ...notFound, E_WEBHOOK_DISABLED: disabled },
    },
    [`${names}Deliveries.list`]: {
      success: { ...withDelivery, query: { state: 'pending', event: 'order.paid' } },
      wrong: { query: { state: 'lost' } },
      also: { ...noTenant(ofUnknown), ...notFound, E_DELIVERY_NOT_FOUND: { ...base, given, ...likeUnknown } },
    },
    [`${names}Deliveries.get`]: {
      success: withDelivery,
      wrong: { params: { deliveryId: 'newest' } },
      also: {
        ...noTenant({ params: { webhookId: UNKNOWN, deliveryId: UNKNOWN } }),
        E_WEBHOOK_NOT_FOUND: { ...base, params: { webhookId: UNKNOWN, deliveryId: UNKNOWN } },
        E_DELIVERY_NOT_FOUND: { ...base, given, ...noDelivery },
      },
    },
    [`${names}Deliveries.replay`]: {
      success: withDelivery,
      wrong: { params: { deliveryId: 'newest' } },
      also: {
        ...noTenant({ params: { webhookId: UNKNOWN, deliveryId: UNKNOWN } }),
        E_WEBHOOK_NOT_FOUND: { ...base, params: { webhookId: UNKNOWN, deliveryId: UNKNOWN } },
        E_DELIVERY_NOT_FOUND: { ...base, given, ...noDelivery },
        E_WEBHOOK_DISABLED: disabledWithDelivery,
      },
    },
  }
}

/** @param args arguments of each command before those of the subscription */
function commandsOf(command: string, path: string, ...args: readonly string[]): NonNullable<Part['commands']> {
  const base: Case = args.length > 0 ? {} : absent
  const given = [subscribed(path)]
  const ofOne = { ...base, given, line: [...args, '{webhookId}'] }
  const withDelivery = { ...base, given: [...given, tested(path)] }
  return {
    [`${command}:list`]: { ...base, given, line: [...args, '--limit', '1'] },
    [`${command}:create`]: { ...base, line: [...args, '{receiver}', '--event', 'order.*', '--no-enabled'] },
    [`${command}:show`]: ofOne,
    [`${command}:update`]: { ...ofOne, line: [...ofOne.line, '--event', 'order.paid', '--event', 'a.b', '--disabled'] },
    [`${command}:delete`]: ofOne,
    [`${command}:rotate-secret`]: { ...ofOne, line: [...ofOne.line, '--grace', '60'] },
    [`${command}:test`]: { ...ofOne, line: [...ofOne.line, '--event', 'order.paid'] },
    [`${command}:replay-failed`]: { ...ofOne, line: [...ofOne.line, '--from', '2026-01-01', '--dry-run'] },
    [`${command}:replay-all-failed`]: { ...base, given, line: [...args, '--from', '2026-01-01', '--dry-run'] },
    [`${command}:replay-missing`]: { ...ofOne, line: [...ofOne.line, '--from', '2026-01-01'] },
    [`${command}:deliveries:list`]: { ...withDelivery, line: [...ofOne.line, '--event', 'order.paid'] },
    [`${command}:deliveries:show`]: { ...withDelivery, line: [...ofOne.line, '{given}'] },
    [`${command}:deliveries:replay`]: { ...withDelivery, line: [...ofOne.line, '{given}'] },
  }
}

const event = { event: 'order.paid', payload: { amount: 12.5 } } as const
const ofTenant = '/tenants/{id}/webhooks'

export const part: Part = {
  operations: {
    ...rowsOf('webhook', ofTenant, true),
    ...rowsOf('hostWebhook', '/webhooks', false),
    'webhooks.dispatch': {
      success: { given: [subscribed(ofTenant)], body: event },
      wrong: { body: { ...event, payload: [] } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: event },
        E_TENANT_STATE: { given: ['DELETE /tenants/{id}'], body: event },
      },
    },
    'webhookDeliveries.listAll': {
      success: { given: [subscribed(ofTenant), tested(ofTenant)], query: { tenantId: '{id}', state: 'pending' } },
      wrong: { query: { status: '6xx' } },
      also: { E_DELIVERY_NOT_FOUND: likeUnknown },
    },
    'webhooks.stats': {
      success: { given: [subscribed(ofTenant), tested(ofTenant)], query: { tenantId: '{id}', step: 'day' } },
      wrong: { query: { step: 'minute' } },
      also: {
        E_TENANT_NOT_FOUND: { query: { tenantId: 'unknown' } },
        E_WEBHOOK_NOT_FOUND: { query: { webhookId: UNKNOWN } },
      },
    },
    'webhookEvents.list': { success: {}, wrong: { query: { q: 'tenant' } }, needsNoDatabase: true },
  },
  commands: {
    ...commandsOf('tenant:webhooks', ofTenant, '{id}'),
    ...commandsOf('webhooks', '/webhooks'),
    'webhooks:deliveries:list-all': { given: [subscribed(ofTenant), tested(ofTenant)], line: ['--tenant', '{id}'] },
    'webhooks:stats': { given: [subscribed(ofTenant)], line: ['--tenant', '{id}', '--step', 'day'] },
    'webhooks:events:list': { line: ['--limit', '1'] },
    'tenant:webhooks:dispatch': { given: [subscribed(ofTenant)], line: ['{id}', 'order.paid', '{"amount":12.5}'] },
    'tenant:webhooks:retry': { given: [subscribed(ofTenant), tested(ofTenant)], line: [] },
    'tenant:webhooks:tail': {
      given: [subscribed(ofTenant), tested(ofTenant)],
      line: ['{id}', '--since', '5'],
      isEndless: true,
    },
    'tenant:webhooks:listen': {
      line: ['{id}', '--forward', '{receiver}'],
      isEndless: true,
      json: { meanwhile: ['POST /tenants/{id}/dispatch {"event":"invoice.paid","payload":{"total":12}}'] },
    },
  },
  jobs: {
    DeliverWebhooks: { data: {} },
    StreamToWebhooks: { data: {} },
    TrimWebhooks: { data: {} },
  },
  scenes: {
    'a receiver that wants no more': async ({ api, prepare }) => {
      const names = await prepare({ given: [subscribed(ofTenant, '{receiver}/410'), tested(ofTenant)] })
      const { webhooks } = api.tenancy as WebhooksTenancy
      await webhooks.retry()
      const { id = '', webhookId = '' } = names
      await eventually(async () => expect(await webhooks.get(id, webhookId)).toMatchObject({ disabledReason: 'gone' }))
    },
  },
  /** Subscribes the host to all events. */
  prepare: ({ prepare }) => prepare({ tenant: 'none', given: [subscribed('/webhooks', '{receiver}', '"*"')] }),
  ending: everyEventWasDispatched,
}

/** Checks that each covered event of the catalogue was dispatched, with a body that matches its schema. */
async function everyEventWasDispatched({ api }: Runner, isCovered: (event: string) => boolean): Promise<void> {
  const all: readonly any[] = (await api.call('GET', '/webhook-events')).json.data
  const data = all.filter(({ type }) => isCovered(type))
  const ajv = formats.default(new Ajv2020({ strict: true, allErrors: true, keywords: ['example'] }))
  const names: readonly string[] = data.map(({ name }: { name: string }) => name)
  await eventually(async () => expect(await namesOf(api)).toEqual(expect.arrayContaining([...names])))
  for (const { name, schema } of data) {
    const validate = ajv.compile(schema)
    for (const { body } of await messagesOf(api, name)) {
      expect(validate(JSON.parse(body)), `${name}: ${ajv.errorsText(validate.errors)}: ${body}`).toBe(true)
    }
  }
}

const messagesOf = async ({ tenancy }: Runner['api'], name: string) =>
  (await tenancy.kernel.database.sql('select body from multitenancy.webhook_messages where event = $1', [name])).rows

async function namesOf({ tenancy }: Runner['api']): Promise<string[]> {
  const { rows } = await tenancy.kernel.database.sql('select distinct event from multitenancy.webhook_messages')
  return rows.map(({ event }) => event)
}
