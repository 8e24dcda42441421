/** Migration runs of tenants that share their tables. */
import { expect, inject, test } from 'vitest'
import { recorded } from '../../../test/support/recorded.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { testTenancy } from '../../testing/base/tenancy.ts'

test('tenants that share their tables are migrated together, with one event for each tenant', async () => {
  const shared = (name: string) => ({
    name,
    checksum: name,
    up: `create table "${name.slice(5)}" (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
    down: `drop table "${name.slice(5)}"`,
  })
  const options = { role: 'api', isolation: [rowscopePg()] } as const
  const rows = await testTenancy(inject('postgresUrl'), { ...options, migrations: [shared('0001_first')] })
  try {
    for (const id of ['a', 'b', 'c']) {
      await rows.tenancy.tenants.create({ id, name: id })
      await rows.tenancy.tenants.installation.install(id, { isLast: true })
    }
    expect(await rows.tenancy.tenants.migrations.run()).toMatchObject({ total: 0 })
    const next = await rows.open({
      ...options,
      isolation: [rowscopePg()],
      migrations: [shared('0001_first'), shared('0002_second')],
    })
    const published = recorded(next)
    const { migrations } = next.tenants
    expect((await migrations.status.plan()).map(({ tenantId }) => tenantId)).toEqual(['a', 'b', 'c'])
    const { items } = await migrations.run({ ids: ['b'] })
    expect(items).toMatchObject([
      { tenantId: null, isolation: 'rowscope-pg', placement: 'main', migrations: ['0002_second'] },
    ])
    for (const id of ['a', 'b', 'c']) expect(published.of(id)).toEqual(['tenants.migrate', 'TenantMigrated'])
    expect(await migrations.run()).toMatchObject({ total: 0 })
    const failing = { name: '0003_failing', checksum: 'f', up: 'select 1/0' }
    const third = await rows.open({
      ...options,
      isolation: [rowscopePg()],
      migrations: [shared('0001_first'), shared('0002_second'), failing],
    })
    expect(await third.tenants.migrations.run()).toMatchObject({ state: 'failed', failed: 1 })
    expect((await migrations.status.summary()).versions).toMatchObject([{ tenants: 3, failed: 3 }])
    await third.stop()
    await expect(migrations.rollback({ ids: ['b'], steps: 1 })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    expect(await migrations.rollback({ steps: 1 })).toMatchObject({ state: 'completed', total: 1, done: 1 })
    for (const id of ['a', 'b', 'c']) expect(published.of(id)).toEqual(['tenants.rollback', 'TenantMigrated'])
    expect((await migrations.status.summary()).versions).toMatchObject([{ tenants: 3, failed: 0, last: '0001_first' }])
  } finally {
    await rows.end()
  }
})
