/** Backups, restores, clones and moves, as a host sees them. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { holdingImport } from '../../testing/holding.ts'
import { eventually } from '../../testing/tenancy.ts'
import { ISOLATIONS, openWorld, type World } from '../../testing/two-servers.ts'
import { type TransferChecks, transferChecks } from './transfers.fixture.ts'

let world: World
let checks: TransferChecks
beforeAll(async () => {
  world = await openWorld(inject('postgresUrl'))
  checks = transferChecks(world)
})
afterAll(() => world.end())

describe('a tenant', () => {
  test.each(ISOLATIONS)('on %s is backed up while it is used, and restored as it was', (isolation) =>
    checks.restoresBackup(isolation),
  )

  test('is cloned with its rows and its metadata, and the two are independent', () =>
    checks.clonesWithRows('schema-pg'))

  test('is cloned without its rows', () => checks.clonesWithoutRows('rowscope-pg'))

  // Each driver is left and reached once; all pairs are in the slow tier.
  test.each([
    ['schema-pg', 'rowscope-pg', 'other'],
    ['rowscope-pg', 'database-pg', 'main'],
    ['database-pg', 'schema-pg', 'other'],
  ])('moves from %s to %s at %s, and returns', (from, to, placement) => checks.movesAndReturns(from, to, placement))

  test('does not move to the place that it has', async () => {
    await world.tenant('stays')
    await expect(world.transfers.move('stays', { isolation: 'schema-pg' })).rejects.toMatchObject({
      code: 'E_TENANT_STATE',
    })
  })

  test('that is suspended is backed up, restored and moved, and stays closed', () => checks.keepsSuspended('schema-pg'))

  test('is not affected by the rehearsal of a backup', () => checks.rehearses('rowscope-pg'))

  test('leaves nothing when it is purged', () => checks.purges('schema-pg'))
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
    const { id } = await checks.backedUp('mine')
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
    const made = [await checks.backedUp('paged'), await checks.backedUp('paged'), await checks.backedUp('paged')].map(
      ({ id }) => id,
    )
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
    const { id } = await world.tenant('brief')
    const release = await holdingImport(world.otherUrl, 't2_brief')
    const begun = await world.transfers.move(id, { placement: 'other' })
    await eventually(async () => expect((await world.transfers.get(id, begun.transfer.id)).phase).toBe('making'))
    await world.tenancy.tenants.delete(id)
    await release()
    expect(await world.ended(begun)).toMatchObject({ state: 'cancelled' })
    await eventually(async () => {
      await world.transfers.recover()
      expect(await checks.placesOf(id)).toEqual([])
    })
    const row = await checks.rowOf(id)
    expect([row.held_by, row.maintenance]).toEqual([null, null])
  })
})
