/** A driver without copies: requests for transfers are rejected before anything is written. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { directory } from '../../drivers/archives/directory.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../drivers/isolation/sqlite/driver.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantMigration } from '../isolation/migrations.ts'

const MIGRATIONS: readonly TenantMigration[] = [
  { name: '0001_notes', checksum: '1', up: async (db) => void (await sql`create table notes (text text)`.execute(db)) },
]
const NOT_SUPPORTED = {
  code: 'E_NOT_SUPPORTED',
  status: 409,
  message: expect.stringMatching(
    /^The isolation driver "sqlite-memory" does not support .*; use an isolation driver for PostgreSQL/,
  ),
}
const only = { isLast: true, signal: new AbortController().signal }

let opened: TestTenancy<[]>
let archives: string
beforeAll(async () => {
  archives = await mkdtemp(join(tmpdir(), 'tenantry-archives-'))
  opened = await testTenancy(inject('postgresUrl'), {
    role: 'api',
    isolation: [schemaPg(), sqliteMemory()],
    migrations: MIGRATIONS,
    backups: { archives: directory({ path: archives }), everyHours: 1 },
  })
  const { tenants } = opened.tenancy
  for (const [id, isolation] of Object.entries({ memory: 'sqlite-memory', server: 'schema-pg' })) {
    await tenants.create({ id, name: id, isolation })
    await tenants.installation.install(id, only)
  }
})
afterAll(async () => {
  await opened?.end()
  await rm(archives, { recursive: true, force: true })
})

const transfers = () => opened.tenancy.tenants.transfers
const transfersOf = async (id: string) => (await transfers().list(id, { limit: 10 })).data

test('rejects a backup, clone and move of a tenant in memory, and writes nothing', async () => {
  await expect(transfers().backups.create('memory')).rejects.toMatchObject(NOT_SUPPORTED)
  await expect(transfers().clone('memory', { id: 'copy', name: 'Copy' })).rejects.toMatchObject(NOT_SUPPORTED)
  await expect(transfers().move('memory', { isolation: 'schema-pg' })).rejects.toMatchObject(NOT_SUPPORTED)
  expect(await transfersOf('memory')).toEqual([])
  expect((await transfers().backups.list('memory', { limit: 10 })).data).toEqual([])
  await expect(opened.tenancy.tenants.get('copy')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
})

test('rejects a restore and a move into memory, and writes nothing', async () => {
  const { id: backupId } = await transfers().backups.create('server')
  await transfers().work(backupId, only)
  const before = await transfersOf('server')
  for (const rehearse of [false, true]) {
    const restore = transfers().backups.restore('server', { backupId, rehearse, isolation: 'sqlite-memory' })
    await expect(restore).rejects.toMatchObject(NOT_SUPPORTED)
  }
  await expect(transfers().move('server', { isolation: 'sqlite-memory' })).rejects.toMatchObject(NOT_SUPPORTED)
  expect(await transfersOf('server')).toEqual(before)
})

test('clones a tenant in memory without its data', async () => {
  const { db } = await opened.tenancy.tenant('memory')
  await db.insertInto('notes').values({ text: 'not copied' }).execute()
  const { transfer } = await transfers().clone('memory', { id: 'empty', name: 'Empty', data: false })
  await transfers().work(transfer.id, only)
  const clone = await opened.tenancy.tenant('empty')
  expect(await clone.db.selectFrom('notes').selectAll().execute()).toEqual([])
})

test('schedules no backups of a tenant in memory, and reports none as missed', async () => {
  const { database } = opened.tenancy.kernel
  await database.sql(`update multitenancy.tenants set activated_at = now() - interval '10 hours'`)
  await database.sql(`update multitenancy.backups set created_at = now() - interval '10 hours'`)
  const due = await Array.fromAsync(transfers().due())
  expect(due.map(({ tenantId, what }) => [tenantId, what])).toEqual([['server', 'make']])
  const troubled = await Array.fromAsync(transfers().state.troubled())
  expect(troubled.map(({ tenantId }) => tenantId)).toEqual(['server'])
})
