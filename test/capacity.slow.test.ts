/** Measures the disk space of tenants that "Capacity" in docs/deployment.md states. */
import { readFile } from 'node:fs/promises'
import { expect, inject, test } from 'vitest'
import { FIVE_TABLES, migrations } from '../bench/tenancy.ts'
import { databasePg } from '../src/drivers/isolation/database-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { installed, testTenancy } from '../src/testing/base/tenancy.ts'

const TENANTS = 20
/** Pages of catalogs are shared by tenants, and versions of PostgreSQL differ. */
const SIZES_DIFFER_BY = 0.15
/** Of a rounded number. */
const ROUNDED_BY = 0.05
const MIB = 1_024 ** 2

const isWithin = (share: number, expected: number) => (stated: number) => Math.abs(stated / expected - 1) <= share

test('the disk space of a tenant is as in docs/deployment.md', async () => {
  const { tenancy, end } = await testTenancy(inject('postgresUrl'), {
    isolation: [schemaPg(), databasePg()],
    migrations,
  })
  try {
    const { database } = tenancy.kernel
    const sizeOf = async (name: string): Promise<number> =>
      (await database.sql(`select pg_database_size(${name}) as size`)).rows[0].size
    const install = async (id: string, isolation: string) => {
      await installed(tenancy, { id, name: id, isolation })
      const { pool } = await tenancy.tenant(id)
      for (const [, table] of FIVE_TABLES.matchAll(/create table (\w+)/g)) {
        await pool.query(`insert into ${table} (name) values ($1)`, [table])
      }
    }
    await install('first', 'schema-pg')
    const before = await sizeOf('current_database()')
    for (let n = 0; n < TENANTS; n++) await install(`t${n}`, 'schema-pg')
    const ofSchema = ((await sizeOf('current_database()')) - before) / TENANTS
    await install('separate', 'database-pg')
    const { rows } = await database.sql(`select locator from multitenancy.tenants where id = 'separate'`)
    const ofDatabase = await sizeOf(`'${rows[0].locator}'`)

    const [, kib = 0, perSchema = 0, mib = 0, perDatabase = 0] = (
      /takes (\d+) KiB with\s`schema-pg` \(([\d,]+) tenants in 1 GiB\) and ([\d.]+) MiB with\s+`database-pg` \((\d+) tenants in 1 GiB\)/.exec(
        await readFile('docs/deployment.md', 'utf8'),
      ) ?? []
    ).map((text) => Number(text.replaceAll(',', '')))
    expect(kib, `measured: ${ofSchema / 1_024} KiB`).toSatisfy(isWithin(SIZES_DIFFER_BY, ofSchema / 1_024))
    expect(mib, `measured: ${ofDatabase / MIB} MiB`).toSatisfy(isWithin(SIZES_DIFFER_BY, ofDatabase / MIB))
    expect(perSchema).toSatisfy(isWithin(ROUNDED_BY, 1_024 ** 2 / kib))
    expect(perDatabase).toSatisfy(isWithin(ROUNDED_BY, 1_024 / mib))
  } finally {
    await end()
  }
})
