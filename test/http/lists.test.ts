/** Validation of `limit`, `cursor`, `from` and `to` in every list that openapi.json has. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import type { Api } from '../contract/calls.ts'
import { type Described, described } from '../contract/document.ts'

const takes = (parameter: string) =>
  described
    .filter(({ parameters }) => parameters.some(({ name }) => name === parameter))
    .map((operation) => [operation.name, operation] as const)
const takesCursor = ({ parameters }: Described) => parameters.some(({ name }) => name === 'cursor')
/** Lists with more than one page. */
const FILLED = [
  'tenants.list',
  'auditLogs.list',
  'auditLogs.listAll',
  'webhooks.list',
  'hostWebhooks.list',
  'webhookDeliveries.list',
  'hostWebhookDeliveries.list',
]
const lists = takes('cursor').filter(([name]) => FILLED.includes(name))
const webhooks = ['/tenants/acme/webhooks', '/webhooks']

let api: Opened
/** The same database with another application key. */
let changed: Api
/** Id of the last subscription, by the path of its list. */
const webhookIds: Record<string, string> = {}
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'))
  for (const id of ['acme', 'globex', 'initech']) {
    await api.call('POST', '/tenants', { body: { id, name: id }, headers: { prefer: 'wait=20' } })
  }
  if (described.some(({ name }) => name === 'webhooks.create')) {
    for (const path of webhooks) await subscribe(path)
  }
  const appKey = Buffer.alloc(32, 'the new key').toString('base64')
  // As if the running process were dead: it does not know the new key, and would prevent the start.
  await api.tenancy.kernel.database.sql(`update multitenancy.processes set heartbeat_at = now() - interval '1 minute'`)
  changed = await api.open({ role: 'api', appKey, oldAppKeys: [TEST_APP_KEY] })
})
afterAll(() => api.end())

/** Creates three subscriptions, and three deliveries to the last one. */
async function subscribe(path: string): Promise<void> {
  const body = { url: 'http://127.0.0.1:9/', events: ['order.paid'] }
  for (let n = 0; n < 3; n++) {
    const { json } = await api.call('POST', path, { body })
    webhookIds[path] = json.webhookId
  }
  for (let n = 0; n < 3; n++) await api.call('POST', `${path}/${webhookIds[path]}/test`)
}

/** Valid values of other parameters. */
const VALID: Readonly<Record<string, string>> = {
  id: 'acme',
  bulkId: '00000000-0000-7000-8000-000000000000',
  runId: '00000000-0000-7000-8000-000000000000',
  key: 'requests',
  from: '2026-01-01',
  to: '2026-01-01',
  plan: 'pro',
  status: '5xx',
  createdFrom: '2026-01-01',
  createdTo: '2026-01-01',
}

const read = ({ path, parameters }: Described, query: Record<string, string>, from: Api = api) => {
  const named = path
    .replace(/\{(id|bulkId|runId|key)\}/g, (_, name) => VALID[name] ?? expect.fail(name))
    .replace(/(.*)\/\{webhookId\}/, (_, all) => `${all}/${webhookIds[all]}`)
  const required = parameters.filter((one) => one.in === 'query' && one.required).map(({ name }) => [name, VALID[name]])
  return from.call('GET', `${named}?${new URLSearchParams({ ...Object.fromEntries(required), ...query })}`)
}
const cursorOf = async (list: Described, from: Api = api): Promise<string> => {
  const { status, json } = await read(list, { limit: '1' }, from)
  expect({ status, json }).toMatchObject({ status: 200, json: { data: [{}], nextCursor: expect.any(String) } })
  return json.nextCursor
}
const MESSAGES: Readonly<Record<string, string>> = {
  limit: 'must be a whole number from 1 to 200',
  from: 'must be RFC 3339 (2026-01-31T12:00:00Z) or a date',
  to: 'must be RFC 3339 (2026-01-31T12:00:00Z) or a date',
}
const refusalOf = (path: string) => ({
  status: 400,
  json: { code: 'E_INVALID_REQUEST', errors: [{ path, message: MESSAGES[path] ?? expect.any(String) }] },
})

describe.each(lists)('list %s', (_name, list) => {
  test('a cursor continues the list, also with another limit', async () => {
    const { data } = (await read(list, {})).json
    const next = await read(list, { cursor: await cursorOf(list), limit: '200' })
    expect(next).toMatchObject({ status: 200, json: { data: data.slice(1), nextCursor: null } })
  })

  test('an altered cursor is rejected', async () => {
    const cursor = await cursorOf(list)
    const [key = '', signature = ''] = cursor.split('.')
    const forged = Buffer.from(JSON.stringify(['2100-01-01T00:00:00.000Z', 'zzz'])).toString('base64url')
    const altered = [
      `${forged}.${signature}`,
      `${key}.${signature.slice(0, -1)}`,
      `${key}.${signature}A`,
      `${key}.`,
      key,
      `.${signature}`,
      `${cursor}.${signature}`,
      ` ${cursor}`,
      cursor.toUpperCase(),
    ]
    for (const cursor of altered) expect(await read(list, { cursor })).toMatchObject(refusalOf('cursor'))
  })

  test('a cursor of another list is rejected', async () => {
    for (const [name, other] of lists) {
      if (name !== list.name) {
        expect(await read(list, { cursor: await cursorOf(other) })).toMatchObject(refusalOf('cursor'))
      }
    }
  })

  test('a cursor of other filters is rejected', async () => {
    const cursor = await cursorOf(list)
    const filters = list.parameters.filter(
      ({ in: place, name }) => place === 'query' && !['cursor', 'limit', 'sameResponseAs'].includes(name),
    )
    for (const { name, schema } of filters) {
      const value: string = schema.enum?.at(-1) ?? VALID[name] ?? 'acme'
      if (value !== 'false') {
        expect(await read(list, { cursor, [name]: value }), name).toMatchObject(refusalOf('cursor'))
      }
    }
  })

  test('a cursor under the former application key is accepted, but not a newer one by the former key', async () => {
    expect(await read(list, { cursor: await cursorOf(list) }, changed)).toMatchObject({ status: 200 })
    const cursor = await cursorOf(list, changed)
    expect(await read(list, { cursor })).toMatchObject(refusalOf('cursor'))
  })

  test('a page has 1 to 200 items', async () => {
    expect((await read(list, { limit: '1' })).json.data).toHaveLength(1)
    expect((await read(list, { limit: '200' })).status).toBe(200)
  })
})

describe.each(takes('limit'))('limit of %s', (_name, list) => {
  test.each([
    '0',
    '201',
    'abc',
    '-1',
    '1.5',
    '1e1',
    '0x10',
    ' 5',
    '',
    '５',
    '99999999999999999999',
    'Infinity',
    'null',
  ])('the limit "%s" is rejected', async (limit) => {
    expect(await read(list, { limit })).toMatchObject(refusalOf('limit'))
  })
})

describe.each(takes('from'))('time filter of %s', (_name, list) => {
  test.each([
    'yesterday',
    '',
    '2026-02-30',
    '2026-13-01',
    '2026-1-1',
    '2026-01-01T25:00:00Z',
    '2026-01-01T00:00:00',
    '2026-01-01 00:00:00Z',
    '1767225600',
    '2026-W01',
    'null',
    '+012026-01-01T00:00:00Z',
  ])('the time "%s" is rejected', async (moment) => {
    expect(await read(list, { from: moment })).toMatchObject(refusalOf('from'))
    expect(await read(list, { to: moment })).toMatchObject(refusalOf('to'))
  })
})

describe.each(takes('from').filter(([, list]) => takesCursor(list)))('time filter of list %s', (_name, list) => {
  test.each([
    '2026-01-01',
    '2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00.123456Z',
    '2026-01-01T05:30:00+05:30',
    '0001-01-01',
  ])('the time "%s" is accepted', async (moment) => {
    expect(await read(list, { from: moment })).toMatchObject({ status: 200 })
    expect(await read(list, { to: moment })).toMatchObject({ status: 200, json: { data: [] } })
  })
})
