import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key)' }

let environment: TestTenancy<[]>
let elsewhere: TestDatabase
let way: Way

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  way = await startProxy(elsewhere.url)
  environment = await testTenancy(inject('postgresUrl'), {
    migrations: [NOTES],
    placements: { main: { connections: { max: 4 } }, elsewhere: { url: way.url } },
  })
})
afterAll(async () => {
  await elsewhere.drop() // before the roles that own rights in it
  await environment.end()
  await way.close()
})

const tenants = () => environment.tenancy.tenants
/** Calls the driver directly, as a process with a stale cache does. */
const executeDirectly = async (id: string) => {
  const location = toLocation(await tenants().registry.row(id))
  return tenants().storage.driver(location.isolation).execute(location, { text: 'select * from notes' })
}

test('a tenant can be suspended while its server is unavailable; its storage is closed after the return of the server', async () => {
  await installed(environment.tenancy, { id: 'far', name: 'Far', placement: 'elsewhere' })
  await way.close()
  expect((await tenants().suspend('far')).tenant.status).toBe('suspended')
  await expect(tenants().activate('far')).rejects.toSatisfy((error: any) => error.code === 'ECONNREFUSED')
  expect((await tenants().get('far')).status).toBe('suspended')
  await way.open()
  await eventually(
    async () => expect(executeDirectly('far')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' }),
    20_000,
  )
  await tenants().activate('far')
  expect((await executeDirectly('far')).rows).toEqual([])
})

test('after the return of a server, separate jobs close the storage of several tenants', async () => {
  const ids = ['remote', 'remoter']
  for (const id of ids) await installed(environment.tenancy, { id, name: id, placement: 'elsewhere' })
  await way.close()
  await environment.tenancy.transaction(async () => {
    for (const id of ids) await tenants().suspend(id)
  })
  await way.open()
  for (const id of ids) {
    await eventually(
      async () => expect(executeDirectly(id)).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' }),
      20_000,
    )
  }
})
