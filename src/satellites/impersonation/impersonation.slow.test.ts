/** The end of a session that a request holds: each wait has a limit. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import type { TestTenancy } from '../../testing/base/tenancy.ts'
import {
  anyTenant,
  holding,
  type ImpersonationSatellites,
  type ImpersonationTenancy,
  openImpersonation,
  type Recording,
} from './impersonation.fixture.ts'

const REQUEST = { method: 'GET', path: '/orders' }
const inCode = (code: string) => expect.objectContaining({ code })

let opened: TestTenancy<ImpersonationSatellites>
let tenancy: ImpersonationTenancy
let record: Recording
let id: string

beforeAll(async () => {
  ;({ opened, tenancy, record } = await openImpersonation(inject('postgresUrl')))
})
afterAll(() => opened?.end())
beforeEach(async () => {
  id = await anyTenant(tenancy)
  record.entries.splice(0)
})

const start = () => tenancy.impersonation.start(id, { userId: 'user-42', reason: 'Ticket 4711: exports fail' })
const authenticate = (token: string) => tenancy.impersonation.authenticator().authenticate(id, token, REQUEST)

test('the end of a session does not wait for an unresponsive process with a request in flight', async () => {
  const proxy = await startProxy(opened.url)
  const distant = await opened.open({ database: { url: proxy.url }, role: 'api' })
  try {
    const { token, sessionId } = await start()
    const authenticator = distant.impersonation.authenticator()
    await authenticator.authenticate(id, token, REQUEST)
    const silent = Promise.withResolvers<void>()
    record.onRequest = () => {
      proxy.blackhole()
      silent.resolve()
    }
    const request = authenticator.authenticate(id, token, REQUEST)
    await Promise.race([silent.promise, request])
    record.onRequest = undefined
    const [refused, ended] = await Promise.allSettled([request, tenancy.impersonation.end(sessionId)])
    expect(refused).toMatchObject({ reason: { code: 'E_DEPENDENCY_UNAVAILABLE' } })
    expect(ended).toMatchObject({ value: { sessionId, endedAt: expect.any(String) } })
    await expect(tenancy.impersonation.verify(id, token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    await expect(authenticate(token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    await tenancy.tenants.delete(id)
  } finally {
    await proxy.close()
    await distant.stop()
  }
})

test('the end of a session stops waiting for a request after its limit, and keeps the statement_timeout of the outer transaction', async () => {
  const { token, sessionId } = await start()
  await holding(tenancy, sessionId, async () => {
    const ended = await tenancy.transaction(async () => {
      await tenancy.kernel.database.sql(`set local statement_timeout = '47s'`)
      const { endedAt } = await tenancy.impersonation.end(sessionId)
      const { rows } = await tenancy.kernel.database.sql('show statement_timeout')
      return { endedAt, ...rows[0] }
    })
    expect(ended).toEqual({ endedAt: expect.any(String), statement_timeout: '47s' })
    await expect(tenancy.impersonation.verify(id, token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    await expect(authenticate(token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
  })
  expect(record.of('impersonations.end')).toHaveLength(1)
})
