import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { isUuid, uuidv7 } from '../../kernel/base/ids.ts'
import { foundBy } from '../../kernel/shares/search.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { FoundObject } from './search.ts'

/** Finds `slow` after a minute, and fails for `broken`. */
const orders = defineSatellite({
  name: 'orders',
  summary: 'Keeps orders',
  service: () => ({}),
  searchProviders: [
    foundBy({
      name: 'orders',
      kind: 'order',
      operation: 'orders.get',
      accepts: (q) => ['slow', 'broken', 'order-1'].includes(q),
      sql: `select $1::text as id, null as "tenantId", 'An order' as title, 'id' as matched, '{}'::json as params
        where case $1 when 'slow' then pg_sleep(60) is not null when 'broken' then 1 / (length($1) - 6) > 0 else true end`,
    }),
  ],
})

let opened: TestTenancy<[typeof orders]>
const transferId = uuidv7()
const backupId = uuidv7()

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', satellites: [orders] })
  const { tenants, kernel } = opened.tenancy
  const domains = ['shop.example']
  await tenants.create({ id: 'acme', name: 'Acme', domains, metadata: { crm: { ids: ['x', 4711] }, note: 'say "hi"' } })
  await tenants.create({ id: 'acme-2', name: 'Globex' })
  await tenants.create({ id: 'other', name: 'acme', metadata: { crmId: '4711', ref: 'shop.example' } })
  await tenants.delete('other')
  await kernel.database.sql(
    `insert into multitenancy.transfers (id, kind, tenant_id, isolation, placement, state, created_at)
     values ($1, 'move', 'acme', 'schema-pg', 'main', 'failed', now())`,
    [transferId],
  )
  await kernel.database.sql(
    `insert into multitenancy.backups (id, tenant_id, note, is_scheduled, isolation, is_sealed, created_at)
     values ($1, 'acme', 'before the import', false, 'schema-pg', true, now())`,
    [backupId],
  )
})
afterAll(() => opened.end())

const find = (q: string) => opened.tenancy.tenants.overview.search(q)
const foundFor = async (q: string) => (await find(q)).data.map(({ kind, id, matched }) => `${kind} ${id} by ${matched}`)

describe('a search', () => {
  test('finds tenants, those with the whole term first, also deleted ones', async () => {
    expect(await foundFor('acme')).toEqual(['tenant acme by id', 'tenant other by name', 'tenant acme-2 by id'])
    expect(await foundFor(' globex ')).toEqual(['tenant acme-2 by name'])
    expect(await foundFor('shop.example')).toEqual(['tenant acme by domain', 'tenant other by metadata.ref'])
    expect(await foundFor('hop.ex')).toEqual(['tenant acme by domain'])
  })

  test('finds whole values anywhere in the metadata', async () => {
    expect(await foundFor('4711')).toEqual(['tenant other by metadata.crmId', 'tenant acme by metadata.crm.ids.1'])
    expect(await foundFor('say "hi"')).toEqual(['tenant acme by metadata.note'])
    expect(await foundFor('471')).toEqual([])
    expect(await foundFor('") || (1 == 1')).toEqual([])
  })

  test('finds transfers and backups by their ids, also in upper case', async () => {
    expect((await find(transferId.toUpperCase())).data).toEqual([
      {
        kind: 'transfer',
        id: transferId,
        tenantId: 'acme',
        title: 'move: failed',
        matched: 'id',
        operation: 'transfers.get',
        params: { id: 'acme', transferId },
      },
    ])
    expect((await find(backupId)).data).toMatchObject([
      { kind: 'backup', title: 'before the import', operation: 'backups.get', params: { id: 'acme', backupId } },
    ])
    expect(isUuid(transferId)).toBe(true)
  })

  test('names a provider that is late or fails, with the results of the others', async () => {
    expect(await foundFor('order-1')).toEqual(['order order-1 by id'])
    await opened.tenancy.tenants.update('acme-2', { metadata: { state: 'slow' } })
    const { tenants } = await opened.open({ search: { timeoutMs: 2_000 } })
    const { data, late } = await tenants.overview.search('slow')
    expect(data).toMatchObject([{ id: 'acme-2', matched: 'metadata.state' }])
    expect(late).toEqual(['orders'])
    expect(await find('broken')).toEqual({ data: [], late: ['orders'] })
  })

  test('returns a token only the objects that it may read', async () => {
    const found = (...operations: string[]): Promise<{ data: FoundObject[] }> =>
      enterContext(
        {
          ...currentContext(),
          grant: { bounds: [['*']], operations: new Set(operations), tenants: null, expiresAt: null },
        },
        () => find(transferId),
      )
    expect((await found('search.find', 'tenants.get')).data).toEqual([])
    expect((await found('transfers.get')).data).toMatchObject([{ id: transferId }])
  })

  test('returns at most 20 objects', async () => {
    await opened.tenancy.kernel.database.sql(
      `insert into multitenancy.tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at)
       select 'many-' || i, 'Many', 'active', '{"tag":"many"}', '{}', 'schema-pg', 'main', 'many' || i, now(), now() from generate_series(1, 30) i`,
    )
    expect(new Set(await foundFor('many')).size).toBe(20)
  })
})
