/** Each statement of a handle checks its tenant again: a stale cache does not affect the storage. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import type { Tenant } from './handle.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

let environment: TestTenancy<[]>

beforeAll(async () => {
  environment = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], isolation: [schemaPg(), rowscopePg()] })
})
afterAll(() => environment.end())

const ids = async ({ db }: Pick<Tenant, 'db'>) =>
  (await db.selectFrom('notes').select('id').execute()).map(({ id }) => id)
const write = ({ db }: Pick<Tenant, 'db'>, id: number) => db.insertInto('notes').values({ id }).execute()
/** The rows at a storage location, regardless of its owner. */
const at = async (id: string, epoch: number, isolation: string) => {
  const driver = environment.tenancy.tenants.storage.driver(isolation)
  const location = {
    ...toLocation(await environment.tenancy.tenants.registry.row(id)),
    isolation,
    epoch,
    locator: driver.locator(id, epoch),
  }
  return driver.export(
    location,
    async (copy) => {
      let text = ''
      for await (const { csv } of copy.tables()) for await (const piece of csv) text += piece
      return (text.match(/^\d+$/gm) ?? []).map(Number)
    },
    { signal: new AbortController().signal },
  )
}

/** Moves the tenant without a notification, as if each process had lost it. */
async function move(id: string, isolation: string): Promise<void> {
  const { tenants, kernel } = environment.tenancy
  const row = await tenants.registry.row(id)
  const driver = tenants.storage.driver(isolation)
  const epoch = row.epoch + 1
  const locator = driver.locator(id, epoch)
  await driver.provision({ ...toLocation(row), isolation, epoch, locator })
  await kernel.database.sql('update multitenancy.tenants set isolation = $2, locator = $3, epoch = $4 where id = $1', [
    id,
    isolation,
    locator,
    epoch,
  ])
  await tenants.storage.driver(row.isolation).fence(toLocation(row))
}

describe.each([
  ['schema-pg', 'rowscope-pg'],
  ['rowscope-pg', 'schema-pg'],
  ['schema-pg', 'schema-pg'],
  ['rowscope-pg', 'rowscope-pg'],
])('a process with a stale cache after a move from %s to %s', (from, to) => {
  const moved = async (what: string) => {
    const id = `${what}-from-${from}-to-${to}`
    await installed(environment.tenancy, { id, name: id, isolation: from })
    const handle = await environment.tenancy.tenant(id)
    await write(handle, 1)
    await move(id, to)
    return { id, handle }
  }

  test('starts a transaction at the new location, never at the former one', async () => {
    const { id, handle } = await moved('begin')
    await handle.transaction((db) => write({ db }, 2))
    await write(handle, 3)
    expect(await ids(handle)).toEqual([2, 3])
    expect(await at(id, 1, from)).toEqual([1])
  })

  test('writes to the new location when a single statement meets the fence', async () => {
    const { handle } = await moved('write')
    await write(handle, 4)
    expect(await ids(handle)).toEqual([4])
  })
})

describe('a long-lived handle', () => {
  test('follows its tenant through every status', async () => {
    const { tenants } = environment.tenancy
    await installed(environment.tenancy, { id: 'kept', name: 'Kept' })
    const kept = await environment.tenancy.tenant('kept')
    await write(kept, 1)
    await tenants.enterMaintenance('kept')
    await expect(ids(kept)).rejects.toMatchObject({ code: 'E_TENANT_MAINTENANCE' })
    await tenants.exitMaintenance('kept')
    await tenants.suspend('kept')
    await expect(kept.transaction((db) => ids({ db }))).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    await tenants.delete('kept')
    await expect(kept.pool.query('select 1')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await tenants.restore('kept')
    await tenants.activate('kept')
    expect(await ids(kept)).toEqual([1])
  })

  test('rejects work in the context of another tenant', async () => {
    for (const id of ['one', 'other']) await installed(environment.tenancy, { id, name: id })
    const [one, other] = await Promise.all(['one', 'other'].map((id) => environment.tenancy.tenant(id)))
    const crossing = environment.tenancy.run('other', () => ids(one as Tenant))
    await expect(crossing).rejects.toMatchObject({ code: 'E_TENANT_MISMATCH' })
    expect(await environment.tenancy.run('other', async () => ids(await environment.tenancy.current()))).toEqual([])
    expect(await ids(other as Tenant)).toEqual([])
  })
})
