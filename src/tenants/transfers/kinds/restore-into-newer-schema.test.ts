/** Restore of a backup that is older than a migration: the restored tables are migrated, also in shared storage. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { ISOLATIONS, openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import type { Tenancy } from '../../../tenancy/tenancy.ts'
import { migrationsOf } from './restore-into-newer-schema.fixture.ts'

let before: TestEnvironment
let after: Tenancy
const backups = new Map<string, string>()
const only = { isLast: true, signal: new AbortController().signal }

beforeAll(async () => {
  before = await openTestEnvironment(inject('postgresUrl'), { role: 'api', migrations: migrationsOf('first') })
  for (const isolation of ISOLATIONS) {
    for (const id of [`old-${isolation}`, `neighbour-${isolation}`]) {
      await before.tenancy.tenants.create({ id, name: id, isolation })
      await before.tenancy.tenants.installation.install(id, only)
      const { db } = await before.tenancy.tenant(id)
      await db
        .insertInto('notes')
        .values([{ text: `first of ${id}` }, { text: 'second' }])
        .execute()
    }
    const { id } = await before.transfers.backups.create(`old-${isolation}`)
    await before.transfers.work(id, only)
    backups.set(isolation, id)
  }
  after = await before.open({ role: 'api', migrations: migrationsOf('all') })
  expect(await after.tenants.migrations.run({})).toMatchObject({ state: 'completed', failed: 0 })
})
afterAll(() => before?.end())

test.each(ISOLATIONS)('migrates the restored backup of a tenant on %s', async (isolation) => {
  const id = `old-${isolation}`
  const { db } = await after.tenant(id)
  await db.updateTable('notes').set({ stars: 5 }).execute()
  const backupId = backups.get(isolation) ?? ''
  const restore = async (rehearse: boolean) => {
    const { transfer } = await after.tenants.transfers.backups.restore(id, { backupId, rehearse })
    await after.tenants.transfers.work(transfer.id, only)
    return after.tenants.transfers.get(id, transfer.id)
  }
  expect(await restore(true)).toMatchObject({ state: 'completed', failure: null, compared: 'counts' })
  expect(await restore(false)).toMatchObject({ state: 'completed', failure: null })
  const rows = await db.selectFrom('notes').select(['text', 'stars']).orderBy('id').execute()
  expect(rows).toEqual([
    { text: `first of ${id}`, stars: 0 },
    { text: 'second', stars: 0 },
  ])
  await db.insertInto('notes').values({ text: 'third', stars: 1 }).execute()
  const neighbour = (await after.tenant(`neighbour-${isolation}`)).db
  expect(await neighbour.selectFrom('notes').select('text').orderBy('id').execute()).toEqual([
    { text: `first of neighbour-${isolation}` },
    { text: 'second' },
  ])
  expect(await after.tenants.migrations.status.ofTenant(id, { verify: true })).toEqual([
    { migration: '0001_notes', state: 'applied' },
    { migration: '0002_stars', state: 'applied' },
  ])
})

test('rejects a backup with migrations that the process does not have', async () => {
  const id = 'old-schema-pg'
  const { id: backupId } = await after.tenants.transfers.backups.create(id)
  await after.tenants.transfers.work(backupId, only)
  const { transfer } = await before.transfers.backups.restore(id, { backupId })
  await before.transfers.work(transfer.id, only)
  expect(await before.transfers.get(id, transfer.id)).toMatchObject({
    state: 'failed',
    failure: { code: 'E_BACKUP_INCOMPATIBLE', message: expect.stringContaining('0002_stars') },
  })
})
