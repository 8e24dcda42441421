/** The search of an operator finds the objects of all satellites by their ids. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { runInContext } from '../src/kernel/base/context.ts'
import { COMPARED } from '../src/kernel/shares/search.ts'
import { type Opened, openApi } from './contract/api.ts'

let opened: Opened
beforeAll(async () => {
  opened = await openApi(inject('postgresUrl'), { role: 'api' })
  const { tenants, kernel } = opened.tenancy
  await runInContext({ requestId: 'request.of-acme_1' }, () => tenants.create({ id: 'acme', name: 'Acme' }))
  await kernel.database.sql(`update multitenancy.tenants set status = 'active' where id = 'acme'`)
  await kernel.database.sql(`insert into multitenancy.billing_customers values ('cus_42', 'acme', now())`)
  await kernel.database.sql(
    `insert into multitenancy.billing_subscriptions
       (id, tenant_id, customer_id, status, items, cancel_at_period_end, is_collection_paused, created_at, as_of)
     values ('sub_42', 'acme', 'cus_42', 'past_due', '[]', false, false, now(), now())`,
  )
})
afterAll(() => opened.end())

const search = async (q: string) => {
  const { status, json } = await opened.call('GET', `/search?q=${encodeURIComponent(q)}`)
  expect(status).toBe(200)
  expect(json.late).toEqual([])
  return json.data
}
const post = async (path: string, body: object = {}) => {
  const { status, json, text } = await opened.call('POST', path, { body: JSON.stringify(body) })
  expect(status, text).toBeLessThan(300)
  return json
}

/** The result of the operation that a search has named. */
async function read({ operation, params }: { operation: string; params: Record<string, string> }) {
  const { what } = opened.tenancy.operations.find((one) => one.what.name === operation) ?? expect.fail(operation)
  const rest = { ...params }
  const path = what.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const { [name]: value = '' } = rest
    delete rest[name]
    return value
  })
  const { status, json, text } = await opened.call('GET', `${path}?${new URLSearchParams(rest)}`)
  expect(status, text).toBe(200)
  return json
}

test('each provider has its own name', () => {
  const { searchProviders } = opened.tenancy.kernel.shares
  const names = searchProviders.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  expect(searchProviders.every(({ compares }) => COMPARED.includes(compares))).toBe(true)
})

describe('a search', () => {
  test('finds subscriptions of tenants and of the host by id and part of the URL, and deliveries by id', async () => {
    for (const [owner, names] of [
      ['/tenants/acme', 'webhook'],
      ['', 'hostWebhook'],
    ] as const) {
      const webhook = await post(`${owner}/webhooks`, { url: 'http://localhost:9/100%_hook', events: ['*'] })
      const found = await search(webhook.webhookId)
      expect(found).toMatchObject([{ kind: 'webhook', matched: 'id', operation: `${names}s.get` }])
      expect(await read(found[0])).toMatchObject({ webhookId: webhook.webhookId })
      const delivery = await post(`${owner}/webhooks/${webhook.webhookId}/test`)
      const deliveries = await search(delivery.id)
      expect(deliveries).toMatchObject([{ kind: 'delivery', id: delivery.id, tenantId: owner ? 'acme' : null }])
      expect(await read(deliveries[0])).toMatchObject({ id: delivery.id })
    }
    expect(await search('100%_HOOK')).toMatchObject([{ matched: 'url' }, { matched: 'url' }])
    expect(await search('100_%hook')).toEqual([])
  })

  test('finds audit entries by id and request id, before and after they are sealed', async () => {
    const { json } = await opened.call('GET', '/audit-logs?tenantId=acme&action=tenants.create')
    const [entry] = json.data
    for (const seal of [false, true]) {
      if (seal) await opened.tenancy.auditLogs.sealer.seal()
      const [byId] = await search(entry.id)
      expect(byId).toMatchObject({ kind: 'auditEntry', id: entry.id, tenantId: 'acme', matched: 'id' })
      expect((await read(byId)).data).toMatchObject([{ id: entry.id }])
    }
    const byRequest = await search('request.of-acme_1')
    expect(byRequest).toMatchObject([{ id: entry.id, title: 'tenants.create of tenant:acme', matched: 'requestId' }])
  })

  test('finds impersonations by id', async () => {
    const { sessionId } = await post('/tenants/acme/impersonations', { userId: 'user-42', reason: 'Ticket 4711' })
    const [found] = await search(sessionId)
    expect(found).toMatchObject({ kind: 'impersonation', title: 'admin as user-42', tenantId: 'acme' })
    expect((await read(found)).data).toMatchObject([{ sessionId }])
  })

  test('finds customers and subscriptions of the payment provider', async () => {
    for (const [id, kind, title] of [
      ['cus_42', 'customer', 'open'],
      ['sub_42', 'subscription', 'past_due'],
    ] as const) {
      const [found] = await search(id)
      expect(found).toMatchObject({ kind, id, title, tenantId: 'acme' })
      expect(await read(found)).toMatchObject({ tenantId: 'acme' })
    }
  })
})

test('a list of tenants takes metadata.<key>, and rejects other unknown parameters', async () => {
  await opened.call('PATCH', '/tenants/acme', { body: '{"metadata":{"crmId":4711}}' })
  const found = await opened.call('GET', '/tenants?metadata.crmId=4711&inMaintenance=false&createdFrom=2026-01-01')
  expect(found.json.data).toMatchObject([{ id: 'acme' }])
  const rejected = await opened.call('GET', '/tenants?colour=red&metadata.=7')
  expect(rejected).toMatchObject({
    status: 400,
    json: {
      errors: [
        { path: 'colour', message: 'unknown parameter' },
        { path: 'metadata.', message: 'unknown parameter' },
      ],
    },
  })
  const many = Array.from({ length: 11 }, (_, n) => `metadata.k${n}=1`).join('&')
  expect((await opened.call('GET', `/tenants?${many}`)).status).toBe(400)
})
