import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { z } from 'zod'
import { createHttp, DEFAULT_PREFIX, type Http } from '../../http/app.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually, notificationsReceived, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { SettingChanged, secret, settings } from './index.ts'

const SECRET = 'hunter2-and-more'
const TOKENS = {
  admin: 'a-token-for-the-tests',
  runtime: 'a-token-of-the-hosts',
  reveal: 'a-token-for-secrets',
} as const

const satellite = settings({
  define: {
    'mail.from': z.email(),
    'mail.password': secret(z.string()),
    'upload.mb': z.int().max(100).default(10),
    colour: z.enum(['red', 'green']).nullable().default('red'),
  },
})
type Satellites = [typeof satellite]

const lines: string[] = []
const published: unknown[] = []
let opened: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>
let http: Http
let made = 0

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), {
    satellites: [satellite],
    role: 'api',
    logger: createLogger({ level: 'trace', write: (line) => void lines.push(line) }),
    plans: {
      defaultPlan: 'free',
      definitions: { free: { limits: {} }, pro: { limits: {}, settings: { 'upload.mb': 50 } } },
    },
  })
  tenancy = opened.tenancy
  const adminTokens = Object.entries(TOKENS).map(([name, token]) => ({ name, token, scope: name as 'admin' }))
  http = createHttp(tenancy, { adminTokens })
  for (const type of [ChangeRecorded, SettingChanged]) tenancy.on(type, (event) => void published.push(event))
})
afterAll(() => opened.end())

async function newTenant(plan = 'free'): Promise<string> {
  const id = `tenant-${++made}`
  await tenancy.tenants.create({ id, name: 'Acme', metadata: { plan } })
  return id
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  token: string = TOKENS.admin,
): Promise<[number, any]> {
  const request = new Request(`http://localhost${DEFAULT_PREFIX}/tenants/${path}`, {
    method,
    headers: { 'x-admin-token': token, 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const response = await http.fetch(request)
  const text = await response.text()
  return [response.status, text && JSON.parse(text)]
}

const publishedOf = async (id: string, count: number) => {
  const own = () => published.filter((event: any) => event.tenantId === id && event.action !== 'tenants.create')
  await eventually(() => expect(own().length).toBeGreaterThanOrEqual(count))
  return own()
}
const rowsOf = async (id: string) =>
  (await tenancy.kernel.database.sql('select * from multitenancy.settings where tenant_id = $1 order by name', [id]))
    .rows

describe('a setting', () => {
  test('has the value of the tenant, else of its plan, else the default, else none', async () => {
    const [free, pro] = [await newTenant(), await newTenant('pro')]
    const megabytes: number = await tenancy.settings.get(free, 'upload.mb')
    expect([megabytes, await tenancy.settings.get(pro, 'upload.mb')]).toEqual([10, 50])
    const from: string | undefined = await tenancy.settings.get(pro, 'mail.from')
    expect(from).toBeUndefined()
    await tenancy.settings.set(pro, 'upload.mb', 20)
    expect(await tenancy.settings.get(pro, 'upload.mb')).toBe(20)
    await tenancy.settings.delete(pro, 'upload.mb')
    expect(await tenancy.settings.get(pro, 'upload.mb')).toBe(50)
    await tenancy.tenants.setPlan(pro, 'free')
    expect(await tenancy.settings.get(pro, 'upload.mb')).toBe(10)
  })

  test('is listed with its origin, and null is a value', async () => {
    const id = await newTenant('pro')
    await tenancy.settings.set(id, 'colour', null)
    await tenancy.settings.set(id, 'mail.password', SECRET)
    expect(await tenancy.settings.get(id, 'colour')).toBeNull()
    const time = expect.stringMatching(/Z$/)
    expect(await tenancy.settings.list(id)).toEqual([
      { name: 'colour', isSecret: false, isSet: true, source: 'tenant', value: null, updatedAt: time },
      { name: 'mail.from', isSecret: false, isSet: false, source: null, updatedAt: null },
      { name: 'mail.password', isSecret: true, isSet: true, source: 'tenant', updatedAt: time },
      { name: 'upload.mb', isSecret: false, isSet: true, source: 'plan', value: 50, updatedAt: null },
    ])
  })

  test('rejects a value that does not match its definition, is not JSON or is too large', async () => {
    const id = await newTenant()
    const wrong: unknown[] = ['many', 101, 1.5, null, undefined, () => 1]
    for (const value of wrong) {
      const attempt = tenancy.settings.set(id, 'upload.mb', value as number)
      await expect(attempt).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        extras: { errors: [{ path: 'value' }] },
      })
    }
    const large = tenancy.settings.set(id, 'mail.password', 'x'.repeat(65 * 1024))
    await expect(large).rejects.toThrow('must be at most 64 KiB of JSON')
    expect(await rowsOf(id)).toEqual([])
  })

  test('without a definition, or of an unknown tenant, is not found', async () => {
    const id = await newTenant()
    const unknown = { code: 'E_SETTING_NOT_FOUND' }
    await expect(tenancy.settings.get(id, 'toString' as 'colour')).rejects.toMatchObject(unknown)
    await expect(tenancy.settings.set(id, 'unknown' as 'colour', 'red')).rejects.toMatchObject(unknown)
    await expect(tenancy.settings.get('unknown', 'colour')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  })

  test('that is set to its present value changes nothing', async () => {
    const id = await newTenant()
    await tenancy.settings.set(id, 'mail.password', SECRET)
    await tenancy.settings.set(id, 'upload.mb', 20)
    const before = await rowsOf(id)
    await tenancy.settings.set(id, 'mail.password', SECRET)
    await tenancy.settings.set(id, 'upload.mb', 20)
    await tenancy.settings.delete(id, 'colour')
    expect(await rowsOf(id)).toEqual(before)
    expect(await publishedOf(id, 4)).toHaveLength(4)
  })

  test('whose stored value no longer matches its definition is an error until it is set again', async () => {
    const id = await newTenant()
    await tenancy.settings.set(id, 'upload.mb', 20)
    await tenancy.settings.set(id, 'mail.from', 'info@acme.example')
    const narrower = settings({ define: { 'upload.mb': z.int().max(15), 'mail.from': secret(z.string()) } })
    const later = (await opened.open({ satellites: [narrower] as any, plans: undefined })).settings
    for (const name of ['upload.mb', 'mail.from'] as const) {
      await expect(later.get(id, name)).rejects.toMatchObject({ code: 'E_SETTING_UNUSABLE' })
    }
    await later.set(id, 'mail.from', 'info@acme.example' as never)
    expect(await later.get(id, 'mail.from')).toBe('info@acme.example')
    expect((await rowsOf(id))[0]).toMatchObject({ name: 'mail.from', value: null })
  })
})

describe('a secret', () => {
  test('is in no row, response, log line, audit entry and event', async () => {
    const id = await newTenant()
    lines.length = 0
    const path = `${id}/settings/mail.password`
    const replies = [
      await call('PUT', path, { value: SECRET }),
      await call('PUT', path, { value: `${SECRET}!` }),
      await call('PUT', path, { value: { [SECRET]: 1 } }),
      await call('GET', path),
      await call('GET', `${id}/settings`),
      await call('DELETE', path),
    ]
    expect(replies.map(([status]) => status)).toEqual([200, 200, 400, 200, 200, 204])
    await tenancy.settings.set(id, 'mail.password', SECRET)
    expect(await tenancy.settings.get(id, 'mail.password')).toBe(SECRET)
    const seen = await publishedOf(id, 8)
    expect(seen).toMatchObject([
      { action: 'settings.set', target: `setting:${id}/mail.password`, before: null, after: { isSet: true } },
      { name: 'mail.password', isSecret: true, isSet: true },
      { before: { isSet: true }, after: { isSet: true, isReplaced: true } },
      { name: 'mail.password', isSecret: true, isSet: true },
      { action: 'settings.delete', before: { isSet: true }, after: null },
      { name: 'mail.password', isSecret: true, isSet: false },
      { action: 'settings.set' },
      { isSet: true },
    ])
    expect(JSON.stringify([replies, seen, await rowsOf(id), lines])).not.toContain(SECRET.slice(0, -1))
    expect(lines.join()).toContain('settings.set')
  })

  test('is revealed by its operation to a token of scope reveal, with an audit entry', async () => {
    const id = await newTenant()
    await tenancy.settings.set(id, 'mail.password', SECRET)
    const path = `${id}/settings/mail.password`
    expect(await call('GET', path, undefined, TOKENS.runtime)).toMatchObject([200, { isSet: true }])
    expect(await call('POST', `${path}/reveal`, {}, TOKENS.runtime)).toMatchObject([403, { code: 'E_FORBIDDEN' }])
    expect(await call('GET', path, undefined, TOKENS.reveal)).toMatchObject([200, { isSet: true }])
    expect(await call('PUT', path, { value: 'x' }, TOKENS.reveal)).toMatchObject([403, {}])
    const revealed = { name: 'mail.password', isSet: true, value: SECRET }
    expect(await call('POST', `${path}/reveal`, {}, TOKENS.reveal)).toEqual([200, revealed])
    expect((await publishedOf(id, 3)).slice(2)).toMatchObject([
      { action: 'settings.reveal', before: null, after: null },
    ])
  })

  test('cannot be decrypted as the value of another tenant or setting', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await tenancy.settings.set(one, 'mail.password', SECRET)
    await tenancy.kernel.database.sql(
      `insert into multitenancy.settings (tenant_id, name, secret, updated_at)
       select $2, name, secret, updated_at from multitenancy.settings where tenant_id = $1`,
      [one, other],
    )
    await expect(tenancy.settings.get(other, 'mail.password')).rejects.toMatchObject({ code: 'E_SETTING_UNUSABLE' })
    await tenancy.settings.set(other, 'mail.password', 'another')
    expect(await tenancy.settings.get(other, 'mail.password')).toBe('another')
  })
})

describe('the cache', () => {
  test('serves values without a query, and a change of another process after its notification', async () => {
    const id = await newTenant()
    const there = await opened.open()
    expect(await there.settings.get(id, 'upload.mb')).toBe(10)
    const queries = vi.spyOn(there.kernel.database, 'sql')
    for (const name of ['upload.mb', 'colour', 'mail.password'] as const) await there.settings.get(id, name)
    expect(queries).not.toHaveBeenCalled()
    queries.mockRestore()
    const seen: unknown[] = []
    const end = there.settings.onChange(async (tenantId = '', name = '') => {
      if (tenantId === id) seen.push([name, await there.settings.get(tenantId, name as 'upload.mb')])
    })
    await tenancy.settings.set(id, 'upload.mb', 30)
    await notificationsReceived(there)
    expect(await there.settings.get(id, 'upload.mb')).toBe(30)
    await eventually(() => expect(seen).toEqual([['upload.mb', 30]]))
    end()
  })

  test('loads the settings of a tenant once for concurrent callers', async () => {
    const id = await newTenant()
    await tenancy.tenants.get(id)
    await tenancy.settings.get(id, 'colour')
    await tenancy.settings.set(id, 'colour', 'green')
    await tenancy.tenants.registry.find(id)
    const queries = vi.spyOn(tenancy.kernel.database, 'sql')
    const values = await Promise.all(Array.from({ length: 50 }, () => tenancy.settings.get(id, 'colour')))
    expect([new Set(values), queries.mock.calls.length]).toEqual([new Set(['green']), 1])
    queries.mockRestore()
  })

  test('is not used in a transaction, whose changes are visible only there until the commit', async () => {
    const id = await newTenant()
    expect(await tenancy.settings.get(id, 'upload.mb')).toBe(10)
    const outside = tenancy.transaction(async () => {
      await tenancy.settings.set(id, 'upload.mb', 40)
      expect(await tenancy.settings.get(id, 'upload.mb')).toBe(40)
      expect(await tenancy.kernel.database.outside(() => tenancy.settings.get(id, 'upload.mb'))).toBe(10)
      throw new Error('roll back')
    })
    await expect(outside).rejects.toThrow('roll back')
    expect(await tenancy.settings.get(id, 'upload.mb')).toBe(10)
  })

  test('has the last of concurrent writes', async () => {
    const id = await newTenant()
    await Promise.all(Array.from({ length: 20 }, (_, n) => tenancy.settings.set(id, 'upload.mb', n)))
    const [{ value }] = (await rowsOf(id)) as [{ value: string }]
    expect(await tenancy.settings.get(id, 'upload.mb')).toBe(Number(value))
  })
})

describe('definitions', () => {
  test.each([
    [{ unknown: 1 }, 'plans.definitions.free.settings.unknown: is not a defined setting'],
    [{ 'mail.password': 'x' }, 'plans.definitions.free.settings.mail.password: must not be a secret'],
    [{ 'upload.mb': 101 }, /plans\.definitions\.free\.settings\.upload\.mb: .*<=100/],
  ])('reject the settings %j of a plan at the start', async (values, message) => {
    const plans = { defaultPlan: 'free', definitions: { free: { limits: {}, settings: values } } }
    await expect(opened.open({ plans })).rejects.toThrow(message)
  })

  test('can be JSON Schemas, in which writeOnly marks a secret', async () => {
    const define = {
      'json.port': { type: 'integer', minimum: 1, default: 25 },
      'json.key': { type: 'string', writeOnly: true },
      'json.named': { type: 'object', properties: { writeOnly: { type: 'boolean', writeOnly: false } } },
    } as const
    const { settings: service } = await opened.open({ satellites: [settings({ define })] as any, plans: undefined })
    const json = service as any
    const id = await newTenant()
    expect(await json.get(id, 'json.port')).toBe(25)
    await expect(json.set(id, 'json.port', 0)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    await json.set(id, 'json.named', { writeOnly: true })
    await json.set(id, 'json.key', SECRET)
    expect(JSON.stringify(await rowsOf(id))).not.toContain(SECRET)
    expect(await json.get(id, 'json.key')).toBe(SECRET)
  })

  test('errors of secrets contain no part of the value', async () => {
    const define = {
      'mail.account': secret(z.strictObject({ user: z.string() })),
      keys: secret(z.record(z.string(), z.int())),
    }
    const { settings: service } = await opened.open({ satellites: [settings({ define })] as any, plans: undefined })
    const id = await newTenant()
    for (const [name, value] of [
      ['mail.account', { user: 'ann', [SECRET]: 1 }],
      ['keys', { [SECRET]: SECRET }],
    ] as const) {
      await expect((service as any).set(id, name, value)).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        message: 'value: does not match the definition of the secret',
        extras: { errors: [{ path: 'value' }] },
      })
    }
  })

  test('circular values are rejected', async () => {
    const value: Record<string, unknown> = {}
    value.itself = value
    await expect(tenancy.settings.set(await newTenant(), 'mail.from', value as any)).rejects.toMatchObject({
      message: 'value: must be serialisable as JSON',
    })
  })

  test.each([
    [{ 'no name': z.string() }, 'settings.define.no name: must have letters'],
    [{ port: { type: 'nope' } }, 'settings.define.port: must be a Zod schema, secret(schema), or a JSON Schema'],
    [{ port: 'string' as never }, 'settings.define.port: must be a Zod schema'],
    [
      { smtp: { type: 'object', properties: { password: { type: 'string', writeOnly: true } } } },
      'settings.define.smtp: must have writeOnly: true at its top',
    ],
    [
      { smtp: { type: 'array', items: { anyOf: [{ type: 'null' }, { type: 'string', writeOnly: true }] } } },
      'settings.define.smtp: must have writeOnly: true at its top',
    ],
    [
      { smtp: { type: 'object', properties: { password: { type: 'string', writeOnly: 'true' } } } },
      'settings.define.smtp: must have writeOnly: true at its top',
    ],
    [{ key: { type: 'string', writeOnly: 'true' } }, 'settings.define.key.writeOnly: must be true or false'],
  ])('reject %j', (define, message) => {
    expect(() => settings({ define })).toThrow(message)
  })

  test('have the types of their schemas', async () => {
    const id = await newTenant()
    // @ts-expect-error a setting that is not defined
    await expect(tenancy.settings.get(id, 'uploads')).rejects.toThrow()
    // @ts-expect-error a text for a number
    await expect(tenancy.settings.set(id, 'upload.mb', '5')).rejects.toThrow()
    const password: string | undefined = await tenancy.settings.get(id, 'mail.password')
    expect(password).toBeUndefined()
  })
})
