/** Sessions of browsers: listed, ended in every process, with the end of their token, after an idle time. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { type Access, ADMIN, cookieOf, openAccess, type Process } from './access.fixture.ts'

const SECOND = 'token-of-the-second-0123456789'
const ORIGIN = 'http://localhost'
const MINUTE = 60_000

let access: Access
let here: Process
let there: Process
beforeAll(async () => {
  access = await openAccess(
    inject('postgresUrl'),
    {},
    {
      adminTokens: [
        { name: 'admin', token: ADMIN },
        { name: 'second', token: SECOND },
      ],
    },
  )
  ;({ here, there } = access)
})
afterEach(() => vi.useRealTimers())
afterAll(() => access?.opened.end())

const signIn = async (token: string, at = here) => {
  const response = await at.call(undefined, 'POST /session', { token })
  expect(response.status, response.text).toBe(200)
  return { cookie: cookieOf(response), id: response.json.id as string, expiresAt: response.json.expiresAt as string }
}
const statusOf = async (cookie: string, at: Process, line = 'GET /tenants') =>
  (await at.call(undefined, line, undefined, { cookie })).status
const list = async () => (await here.call(ADMIN, 'GET /sessions?limit=200')).json.data as any[]

test('a session is valid in every process, and listed without its secret', async () => {
  const { cookie, id, expiresAt } = await signIn(ADMIN)
  expect([await statusOf(cookie, here), await statusOf(cookie, there)]).toEqual([200, 200])
  const now = access.clock.now().toISOString()
  expect((await list()).find((one) => one.id === id)).toEqual({
    ...{
      id,
      name: 'admin',
      tokenId: null,
      ip: expect.stringMatching(/^198\.18\./),
      createdAt: now,
      expiresAt,
      lastUsedAt: now,
    },
  })
  const { rows } = await here.tenancy.kernel.database.sql(
    'select to_jsonb(s)::text as text from multitenancy.api_sessions s where id = $1',
    [id],
  )
  const secret = here.tenancy.kernel.secrets.decrypt(cookie.split('=')[1] ?? '', 'tenantry_session')
  expect(secret).toMatch(/^[\w-]{43}$/)
  expect(rows[0].text).not.toContain(secret)
})

test('session.get has the end of the session, and its token limits a new token', async () => {
  const { token } = await access.create({ name: 'operator', may: ['tokens.*'] })
  const { cookie, expiresAt } = await signIn(token)
  const { json } = await here.call(undefined, 'GET /session', undefined, { cookie })
  expect(json).toMatchObject({ name: 'operator', may: ['tokens.*'], expiresAt })
  expect(await here.call(token, 'GET /session')).toMatchObject({ json: { name: 'operator', expiresAt: null } })
})

describe('the end of a session', () => {
  test('by an operator applies in every process within a second', async () => {
    const { cookie, id } = await signIn(ADMIN)
    expect([await statusOf(cookie, here), await statusOf(cookie, there)]).toEqual([200, 200])
    expect((await here.call(ADMIN, `DELETE /sessions/${id}`)).status).toBe(204)
    expect(await statusOf(cookie, here)).toBe(401)
    await eventually(async () => expect(await statusOf(cookie, there)).toBe(401), 4_000)
    expect((await list()).some((one) => one.id === id)).toBe(false)
    expect((await here.call(ADMIN, `DELETE /sessions/${id}`)).json).toMatchObject({ code: 'E_SESSION_NOT_FOUND' })
  })

  test('by a sign-out applies in every process', async () => {
    const { cookie } = await signIn(ADMIN)
    expect(await statusOf(cookie, there)).toBe(200)
    expect((await here.call(undefined, 'DELETE /session', undefined, { cookie, origin: ORIGIN })).status).toBe(204)
    await eventually(async () => expect(await statusOf(cookie, there)).toBe(401), 4_000)
  })

  test('by the revocation of its token applies in every process, and deletes its row', async () => {
    const { id, token } = await access.create({})
    const [one, other] = [await signIn(token), await signIn(token, there)]
    expect([await statusOf(one.cookie, there), await statusOf(other.cookie, here)]).toEqual([200, 200])
    await here.call(ADMIN, `DELETE /tokens/${id}`)
    await eventually(async () => {
      expect([await statusOf(one.cookie, there), await statusOf(other.cookie, here)]).toEqual([401, 401])
    }, 4_000)
    expect((await list()).filter(({ tokenId }) => tokenId === id)).toEqual([])
  })

  test('by the removal of a configured token applies where it is removed', async () => {
    const { cookie } = await signIn(SECOND)
    const without = await access.open({}, { adminTokens: [{ name: 'admin', token: ADMIN }] })
    expect([await statusOf(cookie, here), await statusOf(cookie, without)]).toEqual([200, 401])
  })

  test('is the end of its token, at the latest 12 hours after the sign-in', async () => {
    const end = new Date(access.clock.now().getTime() + 30 * MINUTE).toISOString()
    const { token } = await access.create({ expiresAt: end })
    const [short, long] = [await signIn(token), await signIn(ADMIN)]
    expect(short.expiresAt).toBe(end)
    expect(new Date(long.expiresAt).getTime() - access.clock.now().getTime()).toBe(12 * 60 * MINUTE)
    access.clock.advance(30 * MINUTE)
    expect([await statusOf(short.cookie, here), await statusOf(long.cookie, here)]).toEqual([401, 200])
    access.clock.advance(11.5 * 60 * MINUTE - 1)
    expect(await statusOf(long.cookie, there)).toBe(200)
    access.clock.advance(1)
    expect(await statusOf(long.cookie, there)).toBe(401)
    await signIn(ADMIN) // removes expired rows
    const { rows } = await here.tenancy.kernel.database.sql(
      'select id from multitenancy.api_sessions where id = any($1)',
      [[short.id, long.id]],
    )
    expect(rows).toEqual([])
  })
})

test('a sign-in while its token is revoked opens no session', async () => {
  const { id, token } = await access.create({})
  expect(await here.statusOf(token)).toBe(200)
  await here.tenancy.kernel.database.sql('delete from multitenancy.api_tokens where id = $1', [id]) // without a notification
  expect(await here.call(undefined, 'POST /session', { token })).toMatchObject({ status: 401 })
})

test('with an idle time, a session ends after it without a request in any process', async () => {
  const idle = await access.open({}, { sessions: { idleMinutes: 60 } })
  const other = await access.open({}, { sessions: { idleMinutes: 60 } })
  const { cookie } = await signIn(ADMIN)
  vi.useFakeTimers({ toFake: ['performance'] })
  for (const at of [idle, other, idle, other]) {
    access.clock.advance(50 * MINUTE)
    vi.advanceTimersByTime(50 * MINUTE)
    expect(await statusOf(cookie, at)).toBe(200)
    await at.tenancy.sessions.stop()
  }
  access.clock.advance(61 * MINUTE + 1)
  vi.advanceTimersByTime(61 * MINUTE + 1)
  expect([await statusOf(cookie, idle), await statusOf(cookie, other)]).toEqual([401, 401])
})

test('with an idle time, a session in use does not end while its cached row is older', async () => {
  const idle = await access.open({}, { sessions: { idleMinutes: 60 } })
  const { cookie } = await signIn(ADMIN)
  vi.useFakeTimers({ toFake: ['performance'] }) // the cache keeps the row
  access.clock.advance(60.5 * MINUTE)
  expect(await statusOf(cookie, idle)).toBe(200)
  access.clock.advance(MINUTE)
  expect(await statusOf(cookie, idle)).toBe(200)
  await idle.tenancy.sessions.stop()
  access.clock.advance(61 * MINUTE + 1)
  expect(await statusOf(cookie, idle)).toBe(401)
})
