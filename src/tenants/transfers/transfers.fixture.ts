/** What a host may do with a tenant by transfers, for tests on one isolation driver each. */
import { afterAll, beforeAll, expect, inject } from 'vitest'
import { recorded } from '../../../test/support/recorded.ts'
import { openWorld, type World } from '../../../test/support/two-servers.ts'

/** For one file. */
export function useTransfers() {
  let world: World
  let checks: ReturnType<typeof transferChecks>
  beforeAll(async () => {
    world = await openWorld(inject('postgresUrl'))
    checks = transferChecks(world)
  })
  afterAll(() => world?.end())
  return {
    get world() {
      return world
    },
    get checks() {
      return checks
    },
  }
}

function transferChecks(world: World) {
  const published = recorded(world.tenancy)
  const name = (what: string, isolation: string) => `${what}-${isolation.slice(0, 3)}`
  const rowOf = async (id: string) =>
    (await world.tenancy.kernel.database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
  const placesOf = async (id: string) =>
    (
      await world.tenancy.kernel.database.sql(
        'select state, locator from multitenancy.storage_locations where tenant_id = $1',
        [id],
      )
    ).rows
  const backedUp = async (id: string) => {
    const backup = await world.transfers.backups.create(id)
    await world.done(backup)
    return world.transfers.backups.get(id, backup.id)
  }

  return {
    rowOf,
    placesOf,
    backedUp,

    async restoresBackup(isolation: string): Promise<void> {
      const id = name('backup', isolation)
      const { db } = await world.tenant(id, { isolation })
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
      const started = await world.transfers.backups.restore(id, { backupId: backup.id })
      expect(started).toMatchObject({ backup: { id: backup.id }, transfer: { kind: 'restore', state: 'pending' } })
      expect(await world.done(started)).toMatchObject({ phase: 'done', progress: { rows: 2 } })

      expect(await world.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'after' }).execute() // a handle from before, and the sequence goes on
      expect(await world.notes(id)).toEqual(['first', 'second', 'after'])
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
      const { db } = await world.tenant(id, { isolation })
      await world.tenancy.tenants.update(id, { metadata: { plan: 'free', seats: 3 }, domains: [`${id}.example`] })
      const started = await world.transfers.clone(id, { id: copy, name: 'A copy' })
      expect(started.tenant).toMatchObject({ id: copy, status: 'provisioning', isolation, domains: [] })
      await world.done(started)
      expect(await world.tenancy.tenants.get(copy)).toMatchObject({
        status: 'active',
        name: 'A copy',
        metadata: { plan: 'free', seats: 3 },
        domains: [],
      })
      await db.insertInto('notes').values({ text: 'only here' }).execute()
      await (await world.tenancy.tenant(copy)).db.deleteFrom('notes').where('text', '=', 'first').execute()
      expect([await world.notes(id), await world.notes(copy)]).toEqual([['first', 'second', 'only here'], ['second']])
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
      await world.tenant(id, { isolation })
      await world.done(await world.transfers.clone(id, { id: copy, name: 'Empty', data: false }))
      expect(await world.notes(copy)).toEqual([])
      expect(await world.notes(id)).toEqual(['first', 'second'])
    },

    async movesAndReturns(isolation: string, to: string, placement: string): Promise<void> {
      const id = name(`move-${to.slice(0, 3)}-${placement}`, isolation)
      const { db } = await world.tenant(id, { isolation })
      const started = await world.transfers.move(id, { isolation: to, placement })
      await world.done(started)
      expect(await world.tenancy.tenants.get(id)).toMatchObject({ isolation: to, placement, maintenance: null })
      expect(await world.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'there' }).execute()
      expect(await published.until(id, 'TenantMoved')).toEqual(
        expect.arrayContaining(['TenantEnteredMaintenance', 'tenants.move', 'TenantExitedMaintenance', 'TenantMoved']),
      )

      await world.done(await world.transfers.move(id, { undo: true }))
      expect(await world.tenancy.tenants.get(id)).toMatchObject({ isolation, placement: 'main', maintenance: null })
      expect(await world.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'here' }).execute()
      // What was written there is not lost: it can be returned to in the same way.
      await world.done(await world.transfers.move(id, { undo: true }))
      expect(await world.notes(id)).toEqual(['first', 'second', 'there'])
    },

    async returnsFromRestore(isolation: string): Promise<void> {
      const id = name('return', isolation)
      const { db } = await world.tenant(id, { isolation })
      const backup = await backedUp(id)
      await db.insertInto('notes').values({ text: 'later' }).execute()
      await world.done(await world.transfers.backups.restore(id, { backupId: backup.id }))
      expect(await world.notes(id)).toEqual(['first', 'second'])
      await world.done(await world.transfers.move(id, { undo: true }))
      expect(await world.notes(id)).toEqual(['first', 'second', 'later'])
      await world.done(await world.transfers.move(id, { undo: true }))
      expect(await world.notes(id)).toEqual(['first', 'second'])
    },

    async keepsSuspended(isolation: string): Promise<void> {
      const id = name('shut', isolation)
      await world.tenant(id, { isolation })
      await world.tenancy.tenants.suspend(id)
      const backup = await backedUp(id)
      await world.done(await world.transfers.backups.restore(id, { backupId: backup.id }))
      await world.done(await world.transfers.move(id, { placement: 'other' }))
      const { database } = world.tenancy.kernel
      const location = (await database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
      const driver = world.tenancy.tenants.storage.driver(isolation)
      expect(await driver.isFenced({ ...location, tenantId: id })).toBe(true)
      expect(await world.tenancy.tenants.get(id)).toMatchObject({ status: 'suspended', maintenance: null })
      await world.tenancy.tenants.activate(id)
      expect(await world.notes(id)).toEqual(['first', 'second'])
    },

    async rehearses(isolation: string): Promise<void> {
      const id = name('rehearse', isolation)
      await world.tenant(id, { isolation })
      const backup = await backedUp(id)
      const before = await rowOf(id)
      const started = await world.transfers.backups.restore(id, { backupId: backup.id, rehearse: true })
      expect(await world.done(started)).toMatchObject({
        kind: 'rehearsal',
        compared: 'contents',
        progress: { rows: 2 },
      })
      expect({ ...(await rowOf(id)), last_epoch: 0 }).toEqual({ ...before, last_epoch: 0 })
      expect(await placesOf(id)).toEqual([])
    },

    async purges(isolation: string): Promise<void> {
      const id = name('purge', isolation)
      await world.tenant(id, { isolation })
      await backedUp(id)
      await world.done(await world.transfers.move(id, { placement: 'other' }))
      expect((await world.files()).filter((file) => file.startsWith(`${id}/`))).toHaveLength(1)
      await world.tenancy.tenants.delete(id)
      const { database } = world.tenancy.kernel
      await database.sql(`update multitenancy.tenants set purge_at = '2020-01-01' where id = $1`, [id])
      expect(await world.tenancy.tenants.installation.purge(id)).toBe(true)
      expect((await world.files()).filter((file) => file.startsWith(`${id}/`))).toEqual([])
      for (const table of ['storage_locations', 'backups', 'transfers']) {
        const { rows } = await database.sql(`select from multitenancy.${table} where tenant_id = $1`, [id])
        expect(rows).toEqual([])
      }
      for (const driver of world.tenancy.tenants.storage.drivers) {
        for (const placement of ['main', 'other']) {
          const stored = (await driver.inventory?.(placement)) ?? []
          const left = stored.filter(({ locator }) => locator.includes(id) && driver.name !== 'rowscope-pg')
          expect(left).toEqual([])
        }
      }
    },
  }
}
