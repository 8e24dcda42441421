import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { latch } from '../../../test/support/latch.ts'
import { createTestDatabase, type TestDatabase, unreachableUrl, WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenant } from '../handles/handle.ts'
import { toLocation } from '../registry/registry.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key)' }

let environment: TestTenancy<[]>
let elsewhere: TestDatabase
let acme: Tenant

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
  await elsewhere.drop() // before the roles that own rights in it
  await environment.end()
})

const notes = ({ db }: Tenant) => db.selectFrom('notes').selectAll().execute()
const locationOf = async (id: string) => toLocation(await environment.tenancy.tenants.registry.row(id))
/** Calls the driver directly, as a process with a stale cache does. */
const executeDirectly = async (id: string) => {
  const location = await locationOf(id)
  return environment.tenancy.tenants.storage
    .driver(location.isolation)
    .execute(location, { text: 'select * from notes' })
}

describe('the storage of a tenant', () => {
  test('is closed at its server by a suspension and opened by an activation', async () => {
    await environment.tenancy.tenants.suspend('acme')
    await expect(executeDirectly('acme')).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    await expect(notes(acme)).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    await environment.tenancy.tenants.activate('acme')
    expect((await executeDirectly('acme')).rows).toEqual([])
    expect(await notes(acme)).toEqual([])
  })

  test('is closed by a deletion and returns to its earlier state by a restore', async () => {
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
    ['a single statement', notes],
    ['a transaction', (handle: Tenant) => handle.transaction((db) => notes({ ...handle, db }))],
  ])('rejects %s in progress with the error of the closure', async (_, read) => {
    const { locator } = await locationOf('acme')
    const release = await latch(environment.url, `lock table "${locator}".notes in access exclusive mode`)
    const reading = read(acme).then(String, (error) => error.code) // it has entered its scope and waits for the first lock
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

  test('is opened by a request of an active tenant that meets a fence, as left by a process killed before its commit', async () => {
    const location = await locationOf('acme')
    await environment.tenancy.tenants.storage.driver(location.isolation).fence(location)
    const several = await Promise.all([notes(acme), notes(acme), acme.transaction((db) => notes({ ...acme, db }))])
    expect(several).toEqual([[], [], []])
  })

  test('is closed by a job of another process when a process cannot reach the server', async () => {
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

test('a handle used before the commit of the activation does not open the storage', async () => {
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
