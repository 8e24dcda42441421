/** Authentication while the backoffice database is unavailable: known tokens and sessions are accepted for a limited time. */
import { afterAll, afterEach, beforeAll, expect, inject, test, vi } from 'vitest'
import { createRefusableRole, type RefusableRole } from '../../../test/contract/unavailable.ts'
import { eventually, notificationsReceived } from '../../testing/base/tenancy.ts'
import { type Access, ADMIN, cookieOf, openAccess, type Process } from './access.fixture.ts'

let access: Access
let role: RefusableRole
let there: Process
beforeAll(async () => {
  access = await openAccess(inject('postgresUrl'))
  role = await createRefusableRole(access.opened.url)
  there = await access.open({ database: { url: role.url }, tenants: { staleForSeconds: 60 } })
})
afterEach(() => vi.useRealTimers())
afterAll(async () => {
  await role.admit()
  await there.tenancy.stop()
  await role.drop()
  await access.opened.end()
})

const statusOf = async (token: string) => (await there.call(token, 'GET /session')).status
const ofCookie = async (cookie: string) => (await there.call(undefined, 'GET /session', undefined, { cookie })).status

test('known tokens and sessions are accepted for tenants.staleForSeconds, others are 503', async () => {
  const end = new Date(access.clock.now().getTime() + 30_000).toISOString()
  const [known, ending, unknown] = [
    await access.create({}),
    await access.create({ expiresAt: end }),
    await access.create({}),
  ]
  const cookie = cookieOf(await access.here.call(undefined, 'POST /session', { token: known.token }))
  await notificationsReceived(there.tenancy)
  vi.useFakeTimers({ toFake: ['performance'] })
  expect([await statusOf(known.token), await statusOf(ending.token), await ofCookie(cookie)]).toEqual([200, 200, 200])

  await role.refuse()
  await eventually(() => expect(there.tenancy.kernel.database.isListening).toBe(false))
  vi.advanceTimersByTime(59_000)
  expect([await statusOf(known.token), await statusOf(ending.token), await ofCookie(cookie)]).toEqual([200, 200, 200])
  const wrong = `${known.token.slice(0, -43)}${'x'.repeat(43)}`
  expect([await statusOf(wrong), await statusOf(unknown.token), await statusOf(ADMIN)]).toEqual([401, 503, 200])
  access.clock.advance(30_000)
  expect(await statusOf(ending.token)).toBe(401)
  vi.advanceTimersByTime(2_000)
  const { status, headers, json } = await there.call(known.token, 'GET /session')
  expect({ status, code: json.code }).toEqual({ status: 503, code: 'E_DEPENDENCY_UNAVAILABLE' })
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await ofCookie(cookie)).toBe(503)

  await role.admit()
  await eventually(async () => {
    vi.advanceTimersByTime(1_000)
    expect([await statusOf(known.token), await statusOf(unknown.token)]).toEqual([200, 200])
  })
})
