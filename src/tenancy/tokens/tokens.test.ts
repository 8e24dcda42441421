/** API tokens: creation, expiry, revocation in every process, last use, concurrency. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { eventually, notificationsReceived } from '../../testing/base/tenancy.ts'
import { type Access, ADMIN, openAccess, type Process } from './access.fixture.ts'

const UNAUTHORIZED = { status: 401, json: { code: 'E_UNAUTHORIZED' } }

let access: Access
let here: Process
let there: Process
beforeAll(async () => {
  access = await openAccess(inject('postgresUrl'))
  ;({ here, there } = access)
})
afterAll(() => access?.opened.end())
afterEach(() => vi.useRealTimers())

const sql = async (text: string, values: unknown[] = []) =>
  (await here.tenancy.kernel.database.sql(text, values)).rows as any[]
const lastUse = async (id: string): Promise<Date | null> =>
  (await sql('select last_used_at from multitenancy.api_tokens where id = $1', [id]))[0].last_used_at

describe('a new token', () => {
  test('has the given name, patterns, tenants and end, and its creator', async () => {
    const expiresAt = new Date(access.clock.now().getTime() + 60_000).toISOString()
    const { status, json } = await here.call(ADMIN, 'POST /tokens', {
      name: ' support ',
      may: ['tenants.*', '!tenants.delete'],
      tenants: ['acme'],
      expiresAt,
    })
    expect(status).toBe(201)
    const { token, ...shown } = json
    expect(token).toMatch(new RegExp(`^tnt_${shown.id}_[\\w-]{43}$`))
    expect(shown).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'support',
      may: ['tenants.*', '!tenants.delete'],
      tenants: ['acme'],
      creator: { type: 'admin', id: 'admin', name: 'admin' },
      createdAt: access.clock.now().toISOString(),
      expiresAt,
      lastUsedAt: null,
    })
    const { json: list, text } = await here.call(ADMIN, 'GET /tokens?limit=200')
    expect(list.data).toContainEqual(shown)
    expect(text).not.toContain(token.slice(-43))
  })

  test('is valid in every process, and its secret is stored nowhere', async () => {
    const { id, token } = await access.create({})
    expect([await here.statusOf(token), await there.statusOf(token)]).toEqual([200, 200])
    const [row] = await sql('select to_jsonb(t)::text as text from multitenancy.api_tokens t where id = $1', [id])
    const [stored] = await sql('select string_agg(response, $1) as text from multitenancy.idempotency_keys', [' '])
    for (const { text } of [row, stored]) expect(text ?? '').not.toContain(token.split('_')[2])
  })

  test('is shown once, also for a repeated Idempotency-Key', async () => {
    const body = { name: 'shown once', may: ['read'] }
    const headers = { 'idempotency-key': 'shown-once' }
    const first = await here.call(ADMIN, 'POST /tokens', body, headers)
    const second = await here.call(ADMIN, 'POST /tokens', body, headers)
    const { token, ...shown } = first.json
    expect(token).toBeDefined()
    expect(second).toMatchObject({ status: 201, json: shown })
    expect(second.json.token).toBeUndefined()
  })

  test('of concurrent requests with one name, one succeeds', async () => {
    const body = { name: 'concurrent', may: ['read'] }
    const all = await Promise.all(
      Array.from({ length: 10 }, (_, index) => (index % 2 ? here : there).call(ADMIN, 'POST /tokens', body)),
    )
    expect(all.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 9 }, () => 409)])
    expect(all.find(({ status }) => status === 409)?.json).toMatchObject({ code: 'E_TOKEN_EXISTS' })
  })

  test('a pattern that matches no operation is named', async () => {
    const body = { name: 'typo', may: ['tenants.*', '!tenants.remove', 'x*'] }
    expect(await here.call(ADMIN, 'POST /tokens', body)).toMatchObject({
      status: 422,
      json: {
        code: 'E_PATTERN_UNKNOWN',
        detail: 'may: "!tenants.remove", "x*" matches no operation. GET /session lists the operations.',
        patterns: ['!tenants.remove', 'x*'],
      },
    })
  })

  test.each([
    { may: [] },
    { may: ['!tenants.delete'] },
    { may: ['tenants.*'], tenants: [] },
    { may: ['tenants.*'], tenants: ['No Id'] },
    { may: ['tenants.*'], expiresAt: 'tomorrow' },
    { may: ['tenants.*'], expiresAt: '2001-01-01T00:00:00Z' },
    { may: ['tenants.*'], name: ' ' },
    { may: ['tenants.*'], secret: 'mine' },
  ])('the request %j is invalid', async (request) => {
    const response = await here.call(ADMIN, 'POST /tokens', { name: 'invalid', ...request })
    expect(response).toMatchObject({ status: 400, json: { code: 'E_INVALID_REQUEST' } })
  })
})

describe('authentication', () => {
  test('another secret, another id, and a changed form are rejected', async () => {
    const { id, token } = await access.create({})
    const other = await access.create({})
    const secret = token.slice(-43)
    for (const wrong of [
      `tnt_${id}_${other.token.slice(-43)}`,
      `tnt_${other.id}_${secret}`,
      `tnt_00000000-0000-7000-8000-000000000000_${secret}`,
      token.slice(0, -1),
      `${token}A`,
      token.toUpperCase(),
      `${token.slice(0, -43)}${secret.toLowerCase()}`,
      id,
      secret,
      `tnt_${id}_`,
    ]) {
      expect(await here.call(wrong, 'GET /tenants'), wrong).toMatchObject(UNAUTHORIZED)
    }
    expect(await here.statusOf(token)).toBe(200)
  })

  test('a known token causes no query for five seconds, then one for concurrent requests', async () => {
    const { token } = await access.create({ may: ['plans.list'] })
    await notificationsReceived(there.tenancy)
    vi.useFakeTimers({ toFake: ['performance'] })
    const ten = () => Promise.all(Array.from({ length: 10 }, () => there.statusOf(token, 'GET /plans')))
    await ten()
    await there.tenancy.tokens.stop()
    expect(await there.queriesOf(ten)).toBe(0)
    vi.advanceTimersByTime(4_999)
    expect(await there.queriesOf(ten)).toBe(0)
    vi.advanceTimersByTime(2)
    expect(await there.queriesOf(ten)).toBe(1)
  })

  test('concurrent requests with many unknown tokens are few queries', async () => {
    const guess = (index: number) => `tnt_00000000-0000-7000-8000-${String(index).padStart(12, '0')}_${'x'.repeat(43)}`
    const queries = await there.queriesOf(() =>
      Promise.all(Array.from({ length: 200 }, (_, index) => there.tenancy.tokens.authenticate(guess(index)))),
    )
    expect(queries).toBeLessThanOrEqual(2)
  })

  test('a token ends at its time, without a query', async () => {
    const expiresAt = new Date(access.clock.now().getTime() + 60_000).toISOString()
    const { token } = await access.create({ expiresAt })
    expect(await there.statusOf(token)).toBe(200)
    access.clock.advance(59_999)
    expect(await there.statusOf(token)).toBe(200)
    access.clock.advance(1)
    expect(await there.call(token, 'GET /tenants')).toMatchObject(UNAUTHORIZED)
    const { json } = await here.call(ADMIN, 'GET /tokens?limit=200')
    expect(json.data.some((one: { expiresAt: string }) => one.expiresAt === expiresAt)).toBe(true)
  })

  test('the last use is written at most once a minute by all processes', async () => {
    const { id, token } = await access.create({})
    const use = async () => {
      for (const process of [here, there]) {
        await process.statusOf(token)
        await process.statusOf(token)
        await process.tenancy.tokens.stop()
      }
    }
    await use()
    const first = access.clock.now()
    expect(await lastUse(id)).toEqual(first)
    access.clock.advance(59_999)
    await use()
    expect(await lastUse(id)).toEqual(first)
    access.clock.advance(1)
    await use()
    expect(await lastUse(id)).toEqual(access.clock.now())
  })

  test('a process that does not write the last use continues from the time that another one has written', async () => {
    const { id, token } = await access.create({})
    await notificationsReceived(there.tenancy)
    vi.useFakeTimers({ toFake: ['performance'] }) // the caches keep the row without a last use
    const use = async (process: Process) => {
      expect(await process.statusOf(token)).toBe(200)
      await process.tenancy.tokens.stop()
    }
    await there.tenancy.tokens.authenticate(`${token.slice(0, -43)}${'x'.repeat(43)}`) // cached, not used
    await use(here)
    const first = access.clock.now()
    access.clock.advance(59_000)
    await use(there)
    expect(await lastUse(id)).toEqual(first)
    access.clock.advance(1_000)
    await use(there)
    expect(await lastUse(id)).toEqual(access.clock.now())
  })
})

describe('a revocation', () => {
  test('rejects the token in every process within a second', async () => {
    const { id, token } = await access.create({})
    expect([await here.statusOf(token), await there.statusOf(token)]).toEqual([200, 200])
    expect((await here.call(ADMIN, `DELETE /tokens/${id}`)).status).toBe(204)
    expect(await here.call(token, 'GET /tenants')).toMatchObject(UNAUTHORIZED)
    await eventually(async () => expect(await there.statusOf(token)).toBe(401), 4_000)
  })

  test('with an upper-case id rejects the token in a process that has cached it', async () => {
    const { id, token } = await access.create({})
    await notificationsReceived(there.tenancy)
    vi.useFakeTimers({ toFake: ['performance'] }) // so that nothing expires in a cache
    expect([await here.statusOf(token), await there.statusOf(token)]).toEqual([200, 200])
    expect((await here.call(ADMIN, `DELETE /tokens/${id.toUpperCase()}`)).status).toBe(204)
    await notificationsReceived(there.tenancy)
    expect([await here.statusOf(token), await there.statusOf(token)]).toEqual([401, 401])
  })

  test('of concurrent requests, one succeeds', async () => {
    const { id } = await access.create({})
    const all = await Promise.all(
      Array.from({ length: 6 }, (_, index) => (index % 2 ? here : there).call(ADMIN, `DELETE /tokens/${id}`)),
    )
    expect(all.map(({ status }) => status).sort()).toEqual([204, 404, 404, 404, 404, 404])
  })

  test('a read that started before the revocation is not kept', async () => {
    const { id, token } = await access.create({})
    await notificationsReceived(there.tenancy)
    const { database } = there.tenancy.kernel
    const original = database.sql.bind(database)
    const [isRead, isReleased] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const spy = vi.spyOn(database, 'sql').mockImplementationOnce(async (...given) => {
      const result = await original(...given)
      isRead.resolve()
      await isReleased.promise
      return result
    })
    const early = there.statusOf(token)
    await isRead.promise
    spy.mockRestore()
    await here.call(ADMIN, `DELETE /tokens/${id}`)
    await notificationsReceived(there.tenancy)
    isReleased.resolve()
    await early
    expect(await there.statusOf(token)).toBe(401)
  })

  test('without notifications, a revoked token is accepted for a second at most', async () => {
    const { id, token } = await access.create({})
    await notificationsReceived(there.tenancy)
    vi.useFakeTimers({ toFake: ['performance'] })
    expect(await there.statusOf(token)).toBe(200)
    const isListening = vi.spyOn(there.tenancy.kernel.database, 'isListening', 'get').mockReturnValue(false)
    await sql('delete from multitenancy.api_tokens where id = $1', [id]) // without a notification
    vi.advanceTimersByTime(1_001)
    expect(await there.statusOf(token)).toBe(401)
    isListening.mockRestore()
  })
})

test('the list has pages, the newest token first', async () => {
  access.clock.advance(1_000)
  const names = ['page 1', 'page 2', 'page 3']
  for (const name of names) {
    await access.create({ name })
    access.clock.advance(1)
  }
  const first = await here.call(ADMIN, 'GET /tokens?limit=2')
  const second = await here.call(ADMIN, `GET /tokens?limit=1&cursor=${first.json.nextCursor}`)
  const shown = [...first.json.data, ...second.json.data].map(({ name }) => name)
  expect(shown).toEqual(names.toReversed())
})
