/** Findings of the doctor for several isolation drivers: each fault once, and none without a fault. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import type { DoctorReport } from '../../kernel/doctor/doctor.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { checks, make, NOTES } from './tenants.fixture.ts'

const SHARED = `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`

describe('a tenancy with several drivers', () => {
  let several: TestTenancy<[]>
  /** Without tenants, with tenants in each status, and after the first fix. */
  const reports: DoctorReport[] = []

  beforeAll(async () => {
    several = await testTenancy(inject('postgresUrl'), {
      role: 'api',
      isolation: [schemaPg(), rowscopePg(), databasePg()],
      migrations: [{ ...NOTES, up: SHARED }],
    })
    const { tenancy } = several
    reports.push(await tenancy.doctor.examine())
    for (const isolation of ['schema-pg', 'rowscope-pg', 'database-pg']) {
      const id = isolation.slice(0, 3)
      await make(tenancy, `${id}-active`, { isolation })
      await make(tenancy, `${id}-suspended`, { isolation })
      await tenancy.tenants.suspend(`${id}-suspended`)
      if (isolation === 'database-pg') continue // a database costs more, and is closed as for a suspended tenant
      await make(tenancy, `${id}-deleted`, { isolation })
      await tenancy.tenants.delete(`${id}-deleted`)
    }
    reports.push(await tenancy.doctor.examine())
    reports.push(await tenancy.doctor.fix({ prove: true, approve: async () => true }))
  })
  afterAll(() => several.end())

  test('has no findings without a fault, for tenants in any status', () => {
    const ok = { status: 'ok', counts: { error: 0, warn: 0, info: 0 }, checks: [] }
    // Databases of tenants share the server with rows of others: PUBLIC can connect to them until the first --fix.
    const fixes = [expect.objectContaining({ code: 'isolation.own-login-reaches-rows', isDone: true })]
    expect(reports).toEqual([ok, ok, { ...ok, fixes }])
  })

  test('revokes a right that was granted to PUBLIC again', async () => {
    const { doctor, kernel } = several.tenancy
    await kernel.database.sql('grant execute on function pg_catalog.lo_create(oid) to public')
    const approve = async (findings: readonly unknown[]) => findings.length === 1
    expect(await doctor.fix({ prove: true, approve })).toMatchObject({
      status: 'ok',
      checks: [],
      fixes: [{ code: 'isolation.public-functions', isDone: true }],
    })
  })

  test('reports orphaned rows on request, with the statements that delete them', async () => {
    const { doctor, kernel } = several.tenancy
    await kernel.database.sql(`insert into tenantry_rows.notes (tenant_id, id) values ('it''s', 1), ('it''s', 2)`)
    expect(await checks({ doctor })).toEqual([])
    const { status, checks: found } = await doctor.examine({ prove: true })
    expect([status, found]).toEqual([
      'warn',
      [
        {
          name: 'storage',
          severity: 'warn',
          code: 'storage.orphaned-rows',
          message: `the table tenantry_rows.notes on "main" has rows (2) with the tenant_id "it's", which belongs to no storage`,
          remedy: expect.stringContaining(': begin; set local'),
          fixable: false,
        },
      ],
    ])
    const [statements = ''] = /begin;.*commit/.exec(found[0]?.remedy ?? '') ?? []
    await kernel.database.session((client) => client.query(statements))
    expect(await doctor.examine({ prove: true })).toMatchObject({ status: 'ok', checks: [] })
  })

  test('proves its isolation only on request, and reports a finding of several drivers once', async () => {
    const { doctor, kernel } = several.tenancy
    const { rows } = await kernel.database.sql('select login from multitenancy.placement_logins')
    await kernel.database.sql(`alter role ${rows[0].login} createdb`)
    try {
      expect(await checks({ doctor })).toEqual([])
      expect(await doctor.examine({ prove: true })).toMatchObject({
        status: 'error',
        checks: [{ code: 'isolation.login-creates-databases' }],
      })
    } finally {
      await kernel.database.sql(`alter role ${rows[0].login} nocreatedb`)
    }
  })
})
