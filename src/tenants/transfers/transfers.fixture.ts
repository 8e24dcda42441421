/** Cases of transfers, for tests on one isolation driver each. */
import { afterAll, beforeAll, expect, inject } from 'vitest'
import { recorded } from '../../../test/support/recorded.ts'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'

/** Once per test file. */
export function useTransfers() {
  let environment: TestEnvironment
  let checks: ReturnType<typeof transferChecks>
  beforeAll(async () => {
    environment = await openTestEnvironment(inject('postgresUrl'))
    checks = transferChecks(environment)
  })
  afterAll(() => environment?.end())
  return {
    get environment() {
      return environment
    },
    get checks() {
      return checks
    },
  }
}

function transferChecks(environment: TestEnvironment) {
  const published = recorded(environment.tenancy)
  const name = (what: string, isolation: string) => `${what}-${isolation.slice(0, 3)}`
  const rowOf = async (id: string) =>
    (await environment.tenancy.kernel.database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
  const placesOf = async (id: string) =>
    (
      await environment.tenancy.kernel.database.sql(
        'select state, locator from multitenancy.storage_locations where tenant_id = $1',
        [id],
      )
    ).rows
  const backedUp = async (id: string) => {
    const backup = await environment.transfers.backups.create(id)
    await environment.done(backup)
    return environment.transfers.backups.get(id, backup.id)
  }

  return {
    rowOf,
    placesOf,
    backedUp,

    async restoresBackup(isolation: string): Promise<void> {
      const id = name('backup', isolation)
      const { db } = await environment.tenant(id, { isolation })
      const backup = await backedUp(id)
      expect(backup).toMatchObject({
        tenantId: id,
        state: 'completed',
        progress: { tables: 1, rows: 2, estimate: { tables: 1 } },
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        isolation,
        migrations: ['0001_notes'],
        isScheduled: false,
        isSealed: false,
        failure: null,
      })
      expect(backup.progress.bytes).toBeGreaterThan(0)
      await db.deleteFrom('notes').where('text', '=', 'first').execute()
      await db.insertInto('notes').values({ text: 'later' }).execute()

      const before = await rowOf(id)
      const started = await environment.transfers.backups.restore(id, { backupId: backup.id })
      expect(started).toMatchObject({ backup: { id: backup.id }, transfer: { kind: 'restore', state: 'pending' } })
      expect(await environment.done(started)).toMatchObject({ phase: 'done', progress: { rows: 2 } })

      expect(await environment.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'after' }).execute() // a handle from before the restore works, and the sequence continues
      expect(await environment.notes(id)).toEqual(['first', 'second', 'after'])
      const after = await rowOf(id)
      expect(after).toMatchObject({
        isolation,
        placement: 'main',
        held_by: null,
        schema_version: before.schema_version,
      })
      expect(after.epoch).toBeGreaterThan(before.epoch)
      expect(await placesOf(id)).toEqual([{ state: 'former', locator: before.locator }])
      expect(await published.until(id, 'TenantRestored')).toEqual(
        expect.arrayContaining(['backups.create', 'TenantBackedUp', 'backups.restore', 'TenantRestored']),
      )
    },

    async clonesWithRows(isolation: string): Promise<void> {
      const [id, copy] = [name('clone', isolation), name('cloned', isolation)]
      const { db } = await environment.tenant(id, { isolation })
      await environment.tenancy.tenants.update(id, { metadata: { plan: 'free', seats: 3 }, domains: [`${id}.example`] })
      const started = await environment.transfers.clone(id, { id: copy, name: 'A copy' })
      expect(started.tenant).toMatchObject({ id: copy, status: 'provisioning', isolation, domains: [] })
      await environment.done(started)
      expect(await environment.tenancy.tenants.get(copy)).toMatchObject({
        status: 'active',
        name: 'A copy',
        metadata: { plan: 'free', seats: 3 },
        domains: [],
      })
      await db.insertInto('notes').values({ text: 'only here' }).execute()
      await (await environment.tenancy.tenant(copy)).db.deleteFrom('notes').where('text', '=', 'first').execute()
      expect([await environment.notes(id), await environment.notes(copy)]).toEqual([
        ['first', 'second', 'only here'],
        ['second'],
      ])
      expect(await published.until(copy, 'TenantCloned')).toEqual([
        'tenants.clone',
        'TenantCreated',
        'tenants.install',
        'TenantProvisioned',
        'TenantMigrated',
        'TenantCloned',
      ])
      expect(await placesOf(copy)).toEqual([])
    },

    async clonesWithoutRows(isolation: string): Promise<void> {
      const [id, copy] = [name('bare', isolation), name('bared', isolation)]
      await environment.tenant(id, { isolation })
      await environment.done(await environment.transfers.clone(id, { id: copy, name: 'Empty', data: false }))
      expect(await environment.notes(copy)).toEqual([])
      expect(await environment.notes(id)).toEqual(['first', 'second'])
    },

    async movesAndReturns(isolation: string, to: string, placement: string): Promise<void> {
      const id = name(`move-${to.slice(0, 3)}-${placement}`, isolation)
      const { db } = await environment.tenant(id, { isolation })
      const started = await environment.transfers.move(id, { isolation: to, placement })
      await environment.done(started)
      expect(await environment.tenancy.tenants.get(id)).toMatchObject({ isolation: to, placement, maintenance: null })
      expect(await environment.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'there' }).execute()
      expect(await published.until(id, 'TenantMoved')).toEqual(
        expect.arrayContaining(['TenantEnteredMaintenance', 'tenants.move', 'TenantExitedMaintenance', 'TenantMoved']),
      )

      await environment.done(await environment.transfers.move(id, { undo: true }))
      expect(await environment.tenancy.tenants.get(id)).toMatchObject({
        isolation,
        placement: 'main',
        maintenance: null,
      })
      expect(await environment.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'here' }).execute()
      // Later writes are not lost: the tenant can return to that storage in the same way.
      await environment.done(await environment.transfers.move(id, { undo: true }))
      expect(await environment.notes(id)).toEqual(['first', 'second', 'there'])
    },

    async returnsFromRestore(isolation: string): Promise<void> {
      const id = name('return', isolation)
      const { db } = await environment.tenant(id, { isolation })
      const backup = await backedUp(id)
      await db.insertInto('notes').values({ text: 'later' }).execute()
      await environment.done(await environment.transfers.backups.restore(id, { backupId: backup.id }))
      expect(await environment.notes(id)).toEqual(['first', 'second'])
      await environment.done(await environment.transfers.move(id, { undo: true }))
      expect(await environment.notes(id)).toEqual(['first', 'second', 'later'])
      await environment.done(await environment.transfers.move(id, { undo: true }))
      expect(await environment.notes(id)).toEqual(['first', 'second'])
    },

    async keepsSuspended(isolation: string): Promise<void> {
      const id = name('shut', isolation)
      await environment.tenant(id, { isolation })
      await environment.tenancy.tenants.suspend(id)
      const backup = await backedUp(id)
      await environment.done(await environment.transfers.backups.restore(id, { backupId: backup.id }))
      await environment.done(await environment.transfers.move(id, { placement: 'other' }))
      const { database } = environment.tenancy.kernel
      const location = (await database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
      const driver = environment.tenancy.tenants.storage.driver(isolation)
      expect(await driver.isFenced({ ...location, tenantId: id })).toBe(true)
      expect(await environment.tenancy.tenants.get(id)).toMatchObject({ status: 'suspended', maintenance: null })
      await environment.tenancy.tenants.activate(id)
      expect(await environment.notes(id)).toEqual(['first', 'second'])
    },

    async rehearses(isolation: string): Promise<void> {
      const id = name('rehearse', isolation)
      await environment.tenant(id, { isolation })
      const backup = await backedUp(id)
      const before = await rowOf(id)
      const started = await environment.transfers.backups.restore(id, { backupId: backup.id, rehearse: true })
      expect(await environment.done(started)).toMatchObject({
        kind: 'rehearsal',
        compared: 'contents',
        progress: { rows: 2 },
      })
      expect({ ...(await rowOf(id)), last_epoch: 0 }).toEqual({ ...before, last_epoch: 0 })
      expect(await placesOf(id)).toEqual([])
    },

    async purges(isolation: string): Promise<void> {
      const id = name('purge', isolation)
      await environment.tenant(id, { isolation })
      await backedUp(id)
      await environment.done(await environment.transfers.move(id, { placement: 'other' }))
      expect((await environment.files()).filter((file) => file.startsWith(`${id}/`))).toHaveLength(1)
      await environment.tenancy.tenants.delete(id)
      const { database } = environment.tenancy.kernel
      await database.sql(`update multitenancy.tenants set purge_at = '2020-01-01' where id = $1`, [id])
      expect(await environment.tenancy.tenants.installation.purge(id)).toBe(true)
      expect((await environment.files()).filter((file) => file.startsWith(`${id}/`))).toEqual([])
      for (const table of ['storage_locations', 'backups', 'transfers']) {
        const { rows } = await database.sql(`select from multitenancy.${table} where tenant_id = $1`, [id])
        expect(rows).toEqual([])
      }
      for (const driver of environment.tenancy.tenants.storage.drivers) {
        for (const placement of ['main', 'other']) {
          const stored = (await driver.inventory?.(placement)) ?? []
          const left = stored.filter(({ locator }) => locator.includes(id) && driver.name !== 'rowscope-pg')
          expect(left).toEqual([])
        }
      }
    },
  }
}
