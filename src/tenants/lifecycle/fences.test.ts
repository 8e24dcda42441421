import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { latch } from '../../../test/support/latch.ts'
import { createTestDatabase, type TestDatabase, unreachableUrl, WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantHandle } from '../handles/handle.ts'
import { toLocation } from '../registry/registry.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key)' }

let environment: TestTenancy<[]>
let elsewhere: TestDatabase
let acme: TenantHandle

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  environment = await testTenancy(inject('postgresUrl'), {
    migrations: [NOTES],
    placements: { main: { connections: { max: 4 } }, elsewhere: { url: elsewhere.url } },
  })
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
  acme = await environment.tenancy.tenant('acme')
})
afterAll(async () => {
  await elsewhere.drop() // before the roles that have rights in it
  await environment.end()
})

const notes = ({ db }: TenantHandle) => db.selectFrom('notes').selectAll().execute()
const locationOf = async (id: string) => toLocation(await environment.tenancy.tenants.registry.row(id))
/** What a process does that has not heard of anything: straight to the driver. */
const executeDirectly = async (id: string) => {
  const location = await locationOf(id)
  return environment.tenancy.tenants.storage
    .driver(location.isolation)
    .execute(location, { text: 'select * from notes' })
}

describe('the storage of a tenant', () => {
  test('is closed at its server when the tenant is suspended, and open when it is active again', async () => {
    await environment.tenancy.tenants.suspend('acme')
    await expect(executeDirectly('acme')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await expect(notes(acme)).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    await environment.tenancy.tenants.activate('acme')
    expect((await executeDirectly('acme')).rows).toEqual([])
    expect(await notes(acme)).toEqual([])
  })

  test('is closed when the tenant is deleted, and as it was when the tenant is restored', async () => {
    await environment.tenancy.tenants.suspend('acme')
    await environment.tenancy.tenants.delete('acme')
    await expect(executeDirectly('acme')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await environment.tenancy.tenants.restore('acme')
    await expect(executeDirectly('acme')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await environment.tenancy.tenants.activate('acme')
    expect(await notes(acme)).toEqual([])
  })

  test('stays open when the suspension is rolled back', async () => {
    const doubted = environment.tenancy.transaction(async () => {
      await environment.tenancy.tenants.suspend('acme')
      throw new Error('no')
    })
    await expect(doubted).rejects.toThrow('no')
    expect(await notes(acme)).toEqual([])
  })

  test('stays closed when the activation is rolled back', async () => {
    await environment.tenancy.tenants.suspend('acme')
    const doubted = environment.tenancy.transaction(async () => {
      await environment.tenancy.tenants.activate('acme')
      throw new Error('no')
    })
    await expect(doubted).rejects.toThrow('no')
    await expect(executeDirectly('acme')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await environment.tenancy.transaction(() => environment.tenancy.tenants.activate('acme'))
    expect(await notes(acme)).toEqual([])
  })

  test.each([
    ['a statement alone', notes],
    ['a transaction', (handle: TenantHandle) => handle.transaction((db) => notes({ ...handle, db }))],
  ])('that is closed under %s refuses it for the reason of the closing', async (_, read) => {
    const { locator } = await locationOf('acme')
    const release = await latch(environment.url, `lock table "${locator}".notes in access exclusive mode`)
    const reading = read(acme).then(String, (error) => error.code) // its scope has been entered, its names not looked up
    await eventually(async () => {
      const { rows } = await environment.tenancy.kernel.database.sql(
        `select from ${WAITING_LOCKS} where relation = '"${locator}".notes'::regclass`,
      )
      expect(rows).toHaveLength(1)
    })
    await environment.tenancy.tenants.suspend('acme')
    await release()
    expect(await reading).toMatch(/^E_TENANT_(SUSPENDED|STORAGE_FENCED)$/)
    await environment.tenancy.tenants.activate('acme')
  })

  test('is opened by who finds an active tenant before a fence, as a process leaves it that dies before its commit', async () => {
    const location = await locationOf('acme')
    await environment.tenancy.tenants.storage.driver(location.isolation).fence(location)
    const several = await Promise.all([notes(acme), notes(acme), acme.transaction((db) => notes({ ...acme, db }))])
    expect(several).toEqual([[], [], []])
  })

  test('whose server a process cannot reach is closed by a job of another process', async () => {
    await installed(environment.tenancy, { id: 'far', name: 'Far', placement: 'elsewhere' })
    const cutOff = await environment.open({
      role: 'api',
      placements: { elsewhere: { url: unreachableUrl(elsewhere.url) } },
    })
    expect((await cutOff.tenants.suspend('far')).tenant.status).toBe('suspended')
    await expect(cutOff.tenants.activate('far')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect((await cutOff.tenants.get('far')).status).toBe('suspended')
    await eventually(
      async () => expect(executeDirectly('far')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' }),
      20_000,
    )
    await environment.tenancy.tenants.activate('far')
    expect((await executeDirectly('far')).rows).toEqual([])
  })
})

test('a handle that is used before the activation is committed opens nothing: it may be rolled back', async () => {
  await environment.tenancy.tenants.suspend('acme')
  const doubted = environment.tenancy.transaction(async () => {
    await environment.tenancy.tenants.activate('acme')
    const handle = await environment.tenancy.tenant('acme')
    await expect(handle.pool.query('select 1')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    throw new Error('no')
  })
  await expect(doubted).rejects.toThrow('no')
  const location = await locationOf('acme')
  expect(await environment.tenancy.tenants.storage.driver(location.isolation).isFenced(location)).toBe(true)
  await environment.tenancy.tenants.activate('acme')
})
