/** Backups, restores, clones and moves, as a host sees them: on every driver, and between any two. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../testing/recorded.ts'
import { installed } from '../../testing/tenancy.ts'
import { ISOLATIONS, openWorld, type World } from '../../testing/two-servers.ts'

let world: World
let said: Recorded
beforeAll(async () => {
  world = await openWorld(inject('postgresUrl'))
  said = recorded(world.tenancy)
})
afterAll(() => world.end())

const rowOf = async (id: string) =>
  (await world.tenancy.kernel.database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
const placesOf = async (id: string) =>
  (await world.tenancy.kernel.database.sql('select state, locator from multitenancy.places where tenant_id = $1', [id]))
    .rows
const backedUp = async (id: string) => {
  const backup = await world.transfers.backups.create(id)
  await world.done(backup)
  return world.transfers.backups.get(id, backup.id)
}

describe.each(ISOLATIONS)('a tenant on %s', (isolation) => {
  const name = (what: string) => `${what}-${isolation.slice(0, 3)}`

  test('is backed up while it is used, and restored as it was', async () => {
    const id = name('backup')
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
    const begun = await world.transfers.backups.restore(id, { backupId: backup.id })
    expect(begun).toMatchObject({ backup: { id: backup.id }, transfer: { kind: 'restore', state: 'pending' } })
    expect(await world.done(begun)).toMatchObject({ phase: 'done', progress: { rows: 2 } })

    expect(await world.notes(id)).toEqual(['first', 'second'])
    await db.insertInto('notes').values({ text: 'after' }).execute() // a handle from before, and the sequence goes on
    expect(await world.notes(id)).toEqual(['first', 'second', 'after'])
    const after = await rowOf(id)
    expect(after).toMatchObject({ isolation, placement: 'main', held_by: null, schema_version: before.schema_version })
    expect(after.epoch).toBeGreaterThan(before.epoch)
    expect(await placesOf(id)).toEqual([{ state: 'former', locator: before.locator }])
    expect(await said.until(id, 'TenantRestored')).toEqual(
      expect.arrayContaining(['backups.create', 'TenantBackedUp', 'backups.restore', 'TenantRestored']),
    )
  })

  test('is cloned with its rows and its metadata, and the two are apart', async () => {
    const [id, copy] = [name('clone'), name('cloned')]
    const { db } = await world.tenant(id, { isolation })
    await world.tenancy.tenants.update(id, { metadata: { plan: 'free', seats: 3 }, domains: [`${id}.example`] })
    const begun = await world.transfers.clone(id, { id: copy, name: 'A copy' })
    expect(begun.tenant).toMatchObject({ id: copy, status: 'provisioning', isolation, domains: [] })
    await world.done(begun)
    expect(await world.tenancy.tenants.get(copy)).toMatchObject({
      status: 'active',
      name: 'A copy',
      metadata: { plan: 'free', seats: 3 },
      domains: [],
    })
    await db.insertInto('notes').values({ text: 'only here' }).execute()
    await (await world.tenancy.tenant(copy)).db.deleteFrom('notes').where('text', '=', 'first').execute()
    expect([await world.notes(id), await world.notes(copy)]).toEqual([['first', 'second', 'only here'], ['second']])
    expect(await said.until(copy, 'TenantCloned')).toEqual([
      'tenants.clone',
      'TenantCreated',
      'tenants.install',
      'TenantProvisioned',
      'TenantMigrated',
      'TenantCloned',
    ])
    expect(await placesOf(copy)).toEqual([])
  })

  test('is cloned without its rows', async () => {
    const [id, copy] = [name('bare'), name('bared')]
    await world.tenant(id, { isolation })
    await world.done(await world.transfers.clone(id, { id: copy, name: 'Empty', data: false }))
    expect(await world.notes(copy)).toEqual([])
    expect(await world.notes(id)).toEqual(['first', 'second'])
  })

  test.each(ISOLATIONS.flatMap((to) => ['main', 'other'].map((placement) => [to, placement] as const)))(
    'moves to %s at %s, and back to what it left',
    async (to, placement) => {
      if (to === isolation && placement === 'main') return stays(isolation)
      const id = name(`move-${to.slice(0, 3)}-${placement}`)
      const { db } = await world.tenant(id, { isolation })
      const begun = await world.transfers.move(id, { isolation: to, placement })
      await world.done(begun)
      expect(await world.tenancy.tenants.get(id)).toMatchObject({ isolation: to, placement, maintenance: null })
      expect(await world.notes(id)).toEqual(['first', 'second'])
      await db.insertInto('notes').values({ text: 'there' }).execute()
      expect(await said.until(id, 'TenantMoved')).toEqual(
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
  )

  async function stays(isolation: string): Promise<void> {
    const id = name('stays')
    await world.tenant(id, { isolation })
    await expect(world.transfers.move(id, { isolation })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  }

  test('that is suspended is backed up, restored and moved, and stays closed', async () => {
    const id = name('shut')
    await world.tenant(id, { isolation })
    await world.tenancy.tenants.suspend(id)
    const backup = await backedUp(id)
    await world.done(await world.transfers.backups.restore(id, { backupId: backup.id }))
    await world.done(await world.transfers.move(id, { placement: 'other' }))
    const { database } = world.tenancy.kernel
    const place = (await database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
    const driver = world.tenancy.tenants.storage.driver(isolation)
    expect(await driver.isFenced({ ...place, tenantId: id })).toBe(true)
    expect(await world.tenancy.tenants.get(id)).toMatchObject({ status: 'suspended', maintenance: null })
    await world.tenancy.tenants.activate(id)
    expect(await world.notes(id)).toEqual(['first', 'second'])
  })

  test('has its backup rehearsed without noticing', async () => {
    const id = name('rehearse')
    await world.tenant(id, { isolation })
    const backup = await backedUp(id)
    const before = await rowOf(id)
    const begun = await world.transfers.backups.restore(id, { backupId: backup.id, rehearse: true })
    expect(await world.done(begun)).toMatchObject({ kind: 'rehearsal', compared: 'contents', progress: { rows: 2 } })
    expect({ ...(await rowOf(id)), last_epoch: 0 }).toEqual({ ...before, last_epoch: 0 })
    expect(await placesOf(id)).toEqual([])
  })

  test('leaves nothing when it is purged', async () => {
    const id = name('purge')
    await world.tenant(id, { isolation })
    await backedUp(id)
    await world.done(await world.transfers.move(id, { placement: 'other' }))
    expect((await world.files()).filter((file) => file.startsWith(`${id}/`))).toHaveLength(1)
    await world.tenancy.tenants.delete(id)
    const { database } = world.tenancy.kernel
    await database.sql(`update multitenancy.tenants set purge_at = '2020-01-01' where id = $1`, [id])
    expect(await world.tenancy.tenants.installation.purge(id)).toBe(true)
    expect((await world.files()).filter((file) => file.startsWith(`${id}/`))).toEqual([])
    for (const table of ['places', 'backups', 'transfers']) {
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
  })
})

describe('of one tenant', () => {
  test('one backup is made at a time, however many ask', async () => {
    await world.tenant('often')
    const asked = await Promise.allSettled(Array.from({ length: 10 }, () => world.transfers.backups.create('often')))
    const refused = asked.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[]
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'E_TRANSFER_IN_PROGRESS', status: 409 })
    const { data } = await world.transfers.backups.list('often', { limit: 50 })
    expect(data).toHaveLength(10 - refused.length)
    for (const { tenantId, id } of data) await world.done({ tenantId, id })
  })

  test('the storage is replaced by one transfer at a time', async () => {
    await world.tenant('torn')
    const asked = await Promise.allSettled([
      ...ISOLATIONS.slice(1).map((isolation) => world.transfers.move('torn', { isolation })),
      world.transfers.move('torn', { placement: 'other' }),
    ])
    const begun = asked.filter(({ status }) => status === 'fulfilled')
    expect(begun).toHaveLength(1)
    for (const one of asked) {
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'E_TRANSFER_IN_PROGRESS' })
      else await world.done(one.value)
    }
    expect(await world.notes('torn')).toEqual(['first', 'second'])
  })

  test('a backup is deleted with its archive, and is another tenant’s to nobody', async () => {
    await world.tenant('mine')
    await world.tenant('yours')
    const { id } = await backedUp('mine')
    const { backups } = world.transfers
    await expect(backups.get('yours', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.delete('yours', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.restore('yours', { backupId: id })).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(world.transfers.get('yours', id)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
    await backups.delete('mine', id)
    await expect(backups.get('mine', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.delete('mine', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    expect((await world.files()).filter((file) => file.startsWith('mine/'))).toEqual([])
  })

  test.each(['nope', '', 'x'.repeat(36)])('what is no id at all is none of a backup or transfer: "%s"', async (id) => {
    const tenantId = `named-${id.length}`
    await world.tenant(tenantId)
    const { backups } = world.transfers
    await expect(backups.get(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.delete(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.download(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(world.transfers.get(tenantId, id)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
    await expect(world.transfers.cancel(tenantId, id)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
  })

  test('backups and transfers are listed page by page, the newest first', async () => {
    await world.tenant('paged')
    const made = [await backedUp('paged'), await backedUp('paged'), await backedUp('paged')].map(({ id }) => id)
    const first = await world.transfers.backups.list('paged', { limit: 2 })
    const second = await world.transfers.backups.list('paged', { limit: 2, cursor: first.nextCursor ?? '' })
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(made.reverse())
    expect(second.nextCursor).toBeNull()
    const transfers = await world.transfers.list('paged', { limit: 200 })
    expect(transfers.data.map(({ id }) => id)).toEqual(made)
  })

  test('nothing is copied that is not there', async () => {
    await world.tenant('gone')
    await world.tenancy.tenants.delete('gone')
    const state = { code: 'E_TENANT_STATE' }
    await expect(world.transfers.backups.create('gone')).rejects.toMatchObject(state)
    await expect(world.transfers.clone('gone', { name: 'x' })).rejects.toMatchObject(state)
    await expect(world.transfers.move('gone', { placement: 'other' })).rejects.toMatchObject(state)
    await expect(world.transfers.move('never', { placement: 'other' })).rejects.toMatchObject({
      code: 'E_TENANT_NOT_FOUND',
    })
    await world.tenant('settled')
    await expect(world.transfers.move('settled', { undo: true })).rejects.toMatchObject(state)
    await expect(world.transfers.move('settled', { placement: 'nowhere' })).rejects.toMatchObject({ status: 400 })
    await expect(world.transfers.move('settled', {})).rejects.toMatchObject({ status: 400 })
  })

  test('a transfer is cancelled when the tenant is deleted, and leaves nothing', async () => {
    const api = await world.open({ role: 'api' })
    const { id } = await installed(world.tenancy, { name: 'Brief' })
    const begun = await api.tenants.transfers.move(id, { placement: 'other' })
    await api.tenants.delete(id)
    expect(await world.ended(begun)).toMatchObject({ state: expect.stringMatching(/cancelled|failed|completed/) })
    await world.transfers.recover()
    const places = await placesOf(id)
    expect(places.filter(({ state }) => state !== 'former')).toEqual([])
    const row = await rowOf(id)
    expect([row.held_by, row.maintenance]).toEqual([null, null])
  })
})
