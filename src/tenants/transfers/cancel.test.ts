/** Cancellation of transfers: on request, and with their tenant. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { latch, latchImport } from '../../../test/support/latch.ts'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import type { Transfer } from './model/transfer.ts'

let environment: TestEnvironment
let published: Recorded
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { role: 'api' })
  published = recorded(environment.tenancy)
})
afterAll(() => environment.end())

const tenants = () => environment.tenancy.tenants
const only = { isLast: true, signal: new AbortController().signal }
const sql = (text: string, values?: unknown[]) => environment.tenancy.kernel.database.sql(text, values)
const install = async (id: string) => {
  await tenants().create({ id, name: id })
  await tenants().installation.install(id, only)
  const { db } = await environment.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'first' }).execute()
}
const backedUp = async (id: string) => {
  const backup = await environment.transfers.backups.create(id)
  await environment.transfers.work(backup.id, only)
  return backup.id
}
const reading = (id: string) => latch(environment.url, `lock table "t1_${id}".notes in access exclusive mode`)

/** Starts a transfer of each kind that cannot end. */
const BEGIN: Readonly<
  Record<string, (id: string) => Promise<[Pick<Transfer, 'id' | 'tenantId'>, () => Promise<void>]>>
> = {
  backup: async (id) => [await environment.transfers.backups.create(id), await reading(id)],
  restore: async (id) => {
    const { transfer } = await environment.transfers.backups.restore(id, { backupId: await backedUp(id) })
    return [transfer, await latchImport(environment.url, `t2_${id}`)]
  },
  rehearsal: async (id) => {
    const { transfer } = await environment.transfers.backups.restore(id, {
      backupId: await backedUp(id),
      rehearse: true,
    })
    return [transfer, await latchImport(environment.url, `t2_${id}`)]
  },
  clone: async (id) => [
    (await environment.transfers.clone(id, { id: `${id}-copy`, name: 'A copy' })).transfer,
    await reading(id),
  ],
  move: async (id) => [
    (await environment.transfers.move(id, { placement: 'other' })).transfer,
    await latchImport(environment.otherUrl, `t2_${id}`),
  ],
}

const PHASE: Readonly<Record<string, string>> = {
  backup: 'waiting',
  clone: 'waiting',
  restore: 'making',
  rehearsal: 'making',
  move: 'making',
}

async function expectAsBefore(id: string, kind: string): Promise<void> {
  expect(await tenants().get(id)).toMatchObject({ status: 'active', maintenance: null, placement: 'main' })
  expect(await environment.notes(id)).toEqual(['first'])
  if (kind === 'clone') {
    const failure = { code: 'E_TRANSFER_CANCELLED', message: 'The transfer was cancelled.' }
    expect(await tenants().get(`${id}-copy`)).toMatchObject({ status: 'failed', failure })
  }
}

describe.each(Object.keys(BEGIN))('a %s', (kind) => {
  const startTransfer = async (id: string) => {
    await install(id)
    const [{ id: transferId, tenantId }, release] = await (BEGIN[kind] as (typeof BEGIN)[string])(id)
    return { transferId, tenantId, release, cancel: () => environment.transfers.cancel(tenantId, transferId) }
  }

  test('a pending transfer is cancelled before a worker claims it', async () => {
    const id = `idle-${kind}`
    const { transferId, tenantId, release, cancel } = await startTransfer(id)
    await release()
    expect(await cancel()).toMatchObject({ state: 'cancelled', failure: { code: 'E_TRANSFER_CANCELLED' } })
    await environment.transfers.work(transferId, only)
    expect(await environment.transfers.get(tenantId, transferId)).toMatchObject({ state: 'cancelled', attempts: 0 })
    await expectAsBefore(id, kind)
    await expect(cancel()).rejects.toMatchObject({ code: 'E_TRANSFER_ENDED' })
  })

  test('a running transfer is cancelled, and its storage and files are removed', async () => {
    const id = `busy-${kind}`
    const { transferId, tenantId, release, cancel } = await startTransfer(id)
    const working = environment.transfers.work(transferId, only)
    await eventually(async () =>
      expect(await environment.transfers.get(tenantId, transferId)).toMatchObject({
        state: 'running',
        phase: PHASE[kind],
      }),
    )
    await cancel()
    await release()
    await working
    expect(await environment.transfers.get(tenantId, transferId)).toMatchObject({ state: 'cancelled' })
    await expectAsBefore(id, kind)
    await environment.transfers.recover()
    expect((await sql(`select from multitenancy.storage_locations where tenant_id = $1`, [tenantId])).rows).toEqual([])
    for (const driver of tenants().storage.drivers) {
      for (const placement of ['main', 'other'])
        expect(await Array.fromAsync(tenants().reconciliation.mismatches(driver, placement))).toEqual([])
    }
    const kept = await sql('select archive from multitenancy.backups where archive is not null')
    expect((await environment.files()).sort()).toEqual(kept.rows.map(({ archive }) => archive).sort())
    expect(
      (await sql(`select from multitenancy.transfers where tenant_id = $1 and state = 'running'`, [id])).rows,
    ).toEqual([])
  })
})

test('a cancelled clone starts again when its tenant is activated', async () => {
  await install('source')
  const { transfer } = await environment.transfers.clone('source', { id: 'again', name: 'Again' })
  await environment.transfers.cancel('again', transfer.id)
  await tenants().activate('again')
  const { data } = await environment.transfers.list('again', { limit: 10 })
  expect(data.map(({ state }) => state)).toEqual(['pending', 'cancelled'])
  await environment.transfers.work(data[0]?.id ?? '', only)
  expect(await environment.notes('again')).toEqual(['first'])
})

test('a tenant that is deleted during a move leaves maintenance, and is restored unchanged', async () => {
  await install('gone')
  const release = await latchImport(environment.otherUrl, 't2_gone')
  const { transfer } = await environment.transfers.move('gone', { placement: 'other' })
  const working = environment.transfers.work(transfer.id, only)
  await eventually(async () => expect((await tenants().get('gone')).maintenance).not.toBeNull())
  await tenants().delete('gone')
  await release()
  await working
  expect(await published.until('gone', 'TenantExitedMaintenance')).toContain('TenantEnteredMaintenance')
  await tenants().restore('gone')
  expect(await tenants().get('gone')).toMatchObject({ status: 'active', maintenance: null, placement: 'main' })
  expect(await environment.notes('gone')).toEqual(['first'])
})

test('rejects the cancellation of an unknown or ended transfer', async () => {
  await install('quiet')
  const unknown = '00000000-0000-7000-8000-000000000000'
  await expect(environment.transfers.cancel('quiet', unknown)).rejects.toMatchObject({ code: 'E_TRANSFER_NOT_FOUND' })
  await expect(environment.transfers.cancel('unknown', unknown)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
})
