import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { openRowTenancy, REQUEST, type RowTenancy } from './row-adoptions.fixture.ts'
import { RowReservations } from './row-reservations.ts'

let here: RowTenancy
let published: Recorded
const tenants = () => here.opened.tenancy.tenants
const tables = () => tenants().adoptions.tables
const adopt = async () => tables().adopt({ ...REQUEST, digest: await here.digest() })
/** Purges the tenants of a release, as the jobs do. */
async function purgeAll(): Promise<void> {
  for (const { id } of await here.sql(`select id from multitenancy.tenants where status = 'deleted'`)) {
    await tenants().installation.purge(id)
  }
  await here.sql(`update multitenancy.row_adoptions set lease_until = now() - interval '1 second'`)
  await tenants().adoptions.recover()
}

beforeAll(async () => {
  here = await openRowTenancy()
  published = recorded(here.opened.tenancy)
})
afterAll(() => here.end())
beforeEach(() => here.create())

describe('adopted tables', () => {
  test('all tenants are active with their rows, and a release leaves the tables as before', async () => {
    const before = await here.table()
    const plan = await tables().plan(REQUEST)
    expect(plan).toMatchObject({
      isolation: 'rowscope-pg',
      storage: 'app',
      isAdoptable: true,
      reasons: [],
      tenants: 3,
      firstTenants: [{ id: '1', name: 'Customer 1' }, { id: '2' }, { id: '3' }],
      locks: [expect.stringContaining('ACCESS EXCLUSIVE on app.notes until the commit, and a scan')],
    })
    expect(plan.warnings).toContainEqual(expect.stringContaining('the key "notes_pkey" reveals'))
    expect(await adopt()).toEqual({ isolation: 'rowscope-pg', placement: 'main', storage: 'app', tenants: 3 })
    expect(await tenants().get('2')).toMatchObject({ name: 'Customer 2', status: 'active', isolation: 'rowscope-pg' })
    expect(published.of('2')).toEqual(['TenantCreated', 'TenantProvisioned'])
    expect(await here.bodies('2')).toEqual([{ body: 'of 2' }])
    expect(await here.sql('select * from multitenancy.row_adoption_tenants')).toEqual([])
    expect(await tables().release({})).toEqual({
      isolation: 'rowscope-pg',
      placement: 'main',
      storage: 'app',
      tenants: 3,
    })
    expect(await here.table()).toEqual(before)
    await expect(tenants().handle('2')).rejects.toThrow()
    await expect(tables().plan(REQUEST)).resolves.toMatchObject({ isAdoptable: false })
    await purgeAll()
    expect(await here.sql('select body from app.notes')).toHaveLength(3)
    expect(await adopt()).toMatchObject({ tenants: 3 })
    expect(await here.bodies('3')).toEqual([{ body: 'of 3' }])
    await tables().release({})
    await purgeAll()
  })

  test('reject a second adoption, and ids that are no value', async () => {
    await adopt()
    expect(await tables().plan(REQUEST)).toMatchObject({
      isAdoptable: false,
      reasons: expect.arrayContaining([expect.stringContaining('were adopted')]),
    })
    for (const id of ['acme', '01']) {
      await expect(tenants().create({ id, name: 'x', isolation: 'rowscope-pg' })).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
      })
    }
    await tenants().create({ id: '9', name: 'Nine', isolation: 'rowscope-pg' })
    await expect(tables().release({})).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    await tenants().installation.install('9', { isLast: true })
    expect(await tables().release({})).toMatchObject({ tenants: 4 })
    await purgeAll()
  })

  test('reject a taken id without any change', async () => {
    await tenants().create({ id: '77', name: 'Taken', isolation: 'schema-pg' })
    await here.sql(`insert into internal.orgs values (77, 'Seventy-seven')`)
    const before = await here.table()
    const { digest, reasons } = await tables().plan(REQUEST)
    expect(reasons).toEqual(['1 tenant ids are taken: "77"'])
    await expect(tables().adopt({ ...REQUEST, digest })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    expect(await here.table()).toEqual(before)
    expect(await here.sql(`select id from multitenancy.tenants where id = '1' and locator = '1'`)).toEqual([])
  })

  test('two concurrent adoptions of the same tenants in opposite orders: one reserves them, the other is rejected', async () => {
    const reservations = new RowReservations(here.opened.tenancy.kernel)
    const customers = Array.from({ length: 2_500 }, (_, n) => ({ id: `c${n}`, name: `Customer ${n}` }))
    const place = { isolation: 'rowscope-pg', storage: 'app', metadata: {}, migrations: [], digest: '' }
    const both = await Promise.allSettled([
      reservations.reserve({ ...place, placement: 'eu' }, customers),
      reservations.reserve({ ...place, placement: 'us' }, customers.toReversed()),
    ])
    const [reserved] = both.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const [rejected] = both.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    expect(rejected).toMatchObject({ code: 'E_TENANT_EXISTS' })
    if (reserved) await reservations.remove(reserved)
    expect(await here.sql(`select id from multitenancy.tenants where id like 'c%'`)).toEqual([])
    expect(await here.sql('select * from multitenancy.row_adoptions')).toEqual([])
  })

  test('reject tenants that have changed since the plan', async () => {
    const digest = await here.digest()
    await here.sql(`insert into internal.orgs values (4, 'Late')`)
    await expect(tables().adopt({ ...REQUEST, digest })).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    expect(await here.sql('select * from multitenancy.row_adoptions')).toEqual([])
  })

  test('cannot be used before their adoption', async () => {
    const before = await here.table()
    await tenants().create({ id: '55', name: 'Early', isolation: 'rowscope-pg' })
    await tenants().installation.install('55', { isLast: true })
    expect(await tenants().get('55')).toMatchObject({ status: 'failed' })
    expect(await here.table()).toEqual(before)
    await tenants().delete('55')
    await here.sql(`update multitenancy.tenants set purge_at = now() - interval '1 hour' where id = '55'`)
    await tenants()
      .installation.purge('55')
      .catch(() => undefined)
    await here.sql(`update multitenancy.tenants set purged_at = now() where id = '55'`)
  })

  test.each([
    ['without a baseline', { baseline: undefined }, 'baseline'],
    ['with an unknown baseline', { baseline: '0009_none' }, 'baseline'],
    ['for an unknown driver', { isolation: 'none' }, 'isolation'],
    ['with an empty table name', { from: '' }, 'from'],
  ])('a request %s is rejected', async (_, change, path) => {
    await expect(tables().plan({ ...REQUEST, ...change })).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [expect.objectContaining({ path })] },
    })
  })

  test('a request for a driver without shared tables is rejected', async () => {
    await expect(tables().plan({ ...REQUEST, isolation: 'schema-pg' })).rejects.toMatchObject({
      code: 'E_NOT_SUPPORTED',
    })
    await expect(tables().release({ isolation: 'schema-pg' })).rejects.toMatchObject({ code: 'E_NOT_SUPPORTED' })
  })
})
