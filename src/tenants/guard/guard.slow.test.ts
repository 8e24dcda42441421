import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import { createTestDatabase } from '../../testing/base/database.ts'
import {
  eventually,
  installed,
  notificationsReceived,
  type TestTenancy,
  testTenancy,
} from '../../testing/base/tenancy.ts'
import { createGuard } from './guard.ts'
import { fromHeader } from './strategies.ts'

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
})
afterAll(() => opened.end())

test('admits requests of cached tenants to their rows while only the backoffice is unavailable', async () => {
  const proxy = await startProxy(opened.url)
  const database = await createTestDatabase(inject('postgresUrl'))
  const tenancy = await opened.open({ database: { url: proxy.url }, placements: { apart: { url: database.url } } })
  const { id } = await installed(tenancy, { name: 'Apart', placement: 'apart' })
  await notificationsReceived(tenancy) // a change received after the first request would empty the cache
  const guard = createGuard(tenancy.tenants, { resolve: fromHeader(), authorize: 'anyone' })
  const admit = async (requested: { id: string }) =>
    guard.admit({ method: 'GET', path: '/orders', host: undefined, header: () => requested.id, raw: undefined })
  await admit({ id })
  await proxy.close()
  await eventually(() => expect(tenancy.kernel.database.isListening).toBe(false))
  const { tenant } = await admit({ id })
  const answered = await tenant?.transaction((db) => sql`select 7 as answer`.execute(db))
  expect(answered?.rows).toEqual([{ answer: 7 }])
  await expect(admit({ id: 'unknown' })).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 })
  await proxy.open()
  await eventually(() => expect(admit({ id: 'unknown' })).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' }))
  await tenancy.stop()
  await proxy.close()
  await database.drop()
})
