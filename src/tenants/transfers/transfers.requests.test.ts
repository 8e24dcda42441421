/** Transfer requests: exclusion per tenant, ids, lists, and rejection or cancellation with the tenant. */
import { describe, expect, test } from 'vitest'
import { latch, latchImport } from '../../../test/support/latch.ts'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { useTransfers } from './transfers.fixture.ts'

const here = useTransfers()

describe('transfer requests', () => {
  test('starts one backup when ten are requested concurrently', async () => {
    await here.environment.tenant('often')
    const release = await latch(here.environment.url, 'lock table "t1_often".notes in access exclusive mode')
    const asked = await Promise.allSettled(
      Array.from({ length: 10 }, () => here.environment.transfers.backups.create('often')),
    )
    const refused = asked.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[]
    expect(refused).toHaveLength(9)
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'E_TRANSFER_IN_PROGRESS', status: 409 })
    const { data } = await here.environment.transfers.backups.list('often', { limit: 50 })
    expect(data).toHaveLength(1)
    await release()
    for (const { tenantId, id } of data) await here.environment.done({ tenantId, id })
  })

  test('admits one replacement of the storage at a time', async () => {
    await here.environment.tenant('torn')
    const asked = await Promise.allSettled([
      ...ISOLATIONS.slice(1).map((isolation) => here.environment.transfers.move('torn', { isolation })),
      here.environment.transfers.move('torn', { placement: 'other' }),
    ])
    const started = asked.filter(({ status }) => status === 'fulfilled')
    expect(started).toHaveLength(1)
    for (const one of asked) {
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'E_TRANSFER_IN_PROGRESS' })
      else await here.environment.done(one.value)
    }
    expect(await here.environment.notes('torn')).toEqual(['first', 'second'])
  })

  test('deletes a backup with its archive, and hides it from other tenants', async () => {
    await here.environment.tenant('mine')
    await here.environment.tenant('yours')
    const { id } = await here.checks.backedUp('mine')
    const { backups } = here.environment.transfers
    await expect(backups.get('yours', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.delete('yours', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.restore('yours', { backupId: id })).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(here.environment.transfers.get('yours', id)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
    await backups.delete('mine', id)
    await expect(backups.get('mine', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    await expect(backups.delete('mine', id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
    expect((await here.environment.files()).filter((file) => file.startsWith('mine/'))).toEqual([])
  })

  test.each(['nope', '', 'x'.repeat(36)])(
    'returns not found for the invalid backup or transfer id "%s"',
    async (id) => {
      const tenantId = `named-${id.length}`
      await here.environment.tenant(tenantId)
      const { backups } = here.environment.transfers
      await expect(backups.get(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
      await expect(backups.delete(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
      await expect(backups.download(tenantId, id)).rejects.toMatchObject({ code: 'E_BACKUP_NOT_FOUND' })
      await expect(here.environment.transfers.get(tenantId, id)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
      await expect(here.environment.transfers.cancel(tenantId, id)).rejects.toMatchObject({
        code: 'E_TRANSFER_NOT_FOUND',
      })
    },
  )

  test('lists backups and transfers page by page, newest first', async () => {
    await here.environment.tenant('paged')
    const made = [
      await here.checks.backedUp('paged'),
      await here.checks.backedUp('paged'),
      await here.checks.backedUp('paged'),
    ].map(({ id }) => id)
    const first = await here.environment.transfers.backups.list('paged', { limit: 2 })
    const second = await here.environment.transfers.backups.list('paged', { limit: 2, cursor: first.nextCursor ?? '' })
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(made.reverse())
    expect(second.nextCursor).toBeNull()
    const transfers = await here.environment.transfers.list('paged', { limit: 200 })
    expect(transfers.data.map(({ id }) => id)).toEqual(made)
  })

  test('rejects transfers of tenants without storage', async () => {
    await here.environment.tenant('gone')
    await here.environment.tenancy.tenants.delete('gone')
    const state = { code: 'E_TENANT_STATE' }
    await expect(here.environment.transfers.backups.create('gone')).rejects.toMatchObject(state)
    await expect(here.environment.transfers.clone('gone', { name: 'x' })).rejects.toMatchObject(state)
    await expect(here.environment.transfers.move('gone', { placement: 'other' })).rejects.toMatchObject(state)
    await expect(here.environment.transfers.move('never', { placement: 'other' })).rejects.toMatchObject({
      code: 'E_TENANT_NOT_FOUND',
    })
    await here.environment.tenant('settled')
    await expect(here.environment.transfers.move('settled', { undo: true })).rejects.toMatchObject(state)
    await expect(here.environment.transfers.move('settled', { placement: 'nowhere' })).rejects.toMatchObject({
      status: 400,
    })
    await expect(here.environment.transfers.move('settled', {})).rejects.toMatchObject({ status: 400 })
  })

  test('cancels the transfers of a deleted tenant and leaves no storage', async () => {
    const { id } = await here.environment.tenant('brief')
    const release = await latchImport(here.environment.otherUrl, 't2_brief')
    const started = await here.environment.transfers.move(id, { placement: 'other' })
    await eventually(async () =>
      expect((await here.environment.transfers.get(id, started.transfer.id)).phase).toBe('making'),
    )
    await here.environment.tenancy.tenants.delete(id)
    await release()
    expect(await here.environment.ended(started)).toMatchObject({ state: 'cancelled' })
    await eventually(async () => {
      await here.environment.transfers.recover()
      expect(await here.checks.placesOf(id)).toEqual([])
    })
    const row = await here.checks.rowOf(id)
    expect([row.held_by, row.maintenance]).toEqual([null, null])
  })
})
