/** What every list of the API takes and refuses: `limit`, `cursor`, `from` and `to`. Which lists there are, the document tells. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import type { Api } from '../contract/calls.ts'
import { type Described, described } from '../contract/document.ts'

const takes = (parameter: string) =>
  described
    .filter(({ parameters }) => parameters.some(({ name }) => name === parameter))
    .map((operation) => [operation.name, operation] as const)
/** Those that have enough to turn pages in. */
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
/** The same, after its application key was changed. */
let changed: Api
/** Of the last subscription, by the path of them all. */
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
  changed = await api.open({ role: 'api', appKey, oldAppKeys: [TEST_APP_KEY] })
})
afterAll(() => api.end())

/** Three subscriptions, and three deliveries to the last. */
async function subscribe(path: string): Promise<void> {
  const body = { url: 'http://127.0.0.1:9/', events: ['order.paid'] }
  for (let n = 0; n < 3; n++) {
    const { json } = await api.call('POST', path, { body })
    webhookIds[path] = json.webhookId
  }
  for (let n = 0; n < 3; n++) await api.call('POST', `${path}/${webhookIds[path]}/test`)
}

const read = (path: string, query: Record<string, string>, from: Api = api) => {
  const named = path.replace('{id}', 'acme').replace(/(.*)\/\{webhookId\}/, (_, all) => `${all}/${webhookIds[all]}`)
  return from.call('GET', `${named}?${new URLSearchParams(query)}`)
}
const cursorOf = async ({ path }: Described, from: Api = api): Promise<string> => {
  const { status, json } = await read(path, { limit: '1' }, from)
  expect({ status, json }).toMatchObject({ status: 200, json: { data: [{}], nextCursor: expect.any(String) } })
  return json.nextCursor
}
const MESSAGES: Readonly<Record<string, string>> = {
  limit: 'a whole number from 1 to 200',
  from: 'must be RFC 3339 (2026-01-31T12:00:00Z) or a date',
  to: 'must be RFC 3339 (2026-01-31T12:00:00Z) or a date',
}
const refusalOf = (path: string) => ({
  status: 400,
  json: { code: 'E_INVALID_REQUEST', errors: [{ path, message: MESSAGES[path] ?? expect.any(String) }] },
})

describe.each(lists)('the list %s', (_name, list) => {
  test('goes on where its cursor says, with another limit too', async () => {
    const { data } = (await read(list.path, {})).json
    const next = await read(list.path, { cursor: await cursorOf(list), limit: '200' })
    expect(next).toMatchObject({ status: 200, json: { data: data.slice(1), nextCursor: null } })
  })

  test('refuses a cursor that was altered', async () => {
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
    for (const cursor of altered) expect(await read(list.path, { cursor })).toMatchObject(refusalOf('cursor'))
  })

  test('refuses a cursor of every other list', async () => {
    for (const [name, other] of lists) {
      if (name !== list.name) {
        expect(await read(list.path, { cursor: await cursorOf(other) })).toMatchObject(refusalOf('cursor'))
      }
    }
  })

  test('refuses a cursor of other filters', async () => {
    const cursor = await cursorOf(list)
    const filters = list.parameters.filter(
      ({ in: place, name }) => place === 'query' && !['cursor', 'limit'].includes(name),
    )
    for (const { name, schema } of filters) {
      const value: string = schema.enum?.at(-1) ?? (['from', 'to'].includes(name) ? '2026-01-01' : 'acme')
      if (value !== 'false') {
        expect(await read(list.path, { cursor, [name]: value }), name).toMatchObject(refusalOf('cursor'))
      }
    }
  })

  test('takes a cursor that was made before the application key was changed, and not the other way round', async () => {
    expect(await read(list.path, { cursor: await cursorOf(list) }, changed)).toMatchObject({ status: 200 })
    const cursor = await cursorOf(list, changed)
    expect(await read(list.path, { cursor })).toMatchObject(refusalOf('cursor'))
  })

  test('has 1 to 200 on a page', async () => {
    expect((await read(list.path, { limit: '1' })).json.data).toHaveLength(1)
    expect((await read(list.path, { limit: '200' })).status).toBe(200)
  })
})

describe.each(takes('limit'))('the limit of %s', (_name, { path }) => {
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
  ])('is not "%s"', async (limit) => {
    expect(await read(path, { limit })).toMatchObject(refusalOf('limit'))
  })
})

describe.each(takes('from'))('a moment of %s', (_name, { path }) => {
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
  ])('is not "%s"', async (moment) => {
    expect(await read(path, { from: moment })).toMatchObject(refusalOf('from'))
    expect(await read(path, { to: moment })).toMatchObject(refusalOf('to'))
  })

  test.each([
    '2026-01-01',
    '2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00.123456Z',
    '2026-01-01T05:30:00+05:30',
    '0001-01-01',
  ])('may be "%s"', async (moment) => {
    expect(await read(path, { from: moment })).toMatchObject({ status: 200 })
    expect(await read(path, { to: moment })).toMatchObject({ status: 200, json: { data: [] } })
  })
})
