/** A backoffice restored from a dump: it drops no storage by outdated records, and serves no outdated storage. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../test/support/two-servers.ts'
import { type FakeClock, fakeClock } from '../testing/base/clock.ts'
import { toLocation } from './registry/registry.ts'

let environment: TestEnvironment
let clock: FakeClock
beforeEach(async () => {
  clock = fakeClock()
  environment = await openTestEnvironment(inject('postgresUrl'), { role: 'api', clock })
})
afterEach(() => environment.end())

const tenants = () => environment.tenancy.tenants
const only = { isLast: true, signal: new AbortController().signal }
const sql = (text: string, values?: unknown[]) => environment.tenancy.kernel.database.sql(text, values)
const install = async (id: string, isolation: string) => {
  await tenants().create({ id, name: id, isolation })
  await tenants().installation.install(id, only)
  const { db } = await environment.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'first' }).execute()
}
const locationOf = async (id: string) => toLocation(await tenants().registry.row(id))
const move = async (id: string) => {
  const { transfer } = await environment.transfers.move(id, { placement: 'other' })
  await environment.transfers.work(transfer.id, only)
  const { db } = await environment.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'newest' }).execute()
}
const isThere = async ({ isolation, placement, locator }: Awaited<ReturnType<typeof locationOf>>) =>
  (await tenants().storage.driver(isolation).inventory?.(placement))?.some((one) => one.locator === locator)

/** Takes a dump; the returned function restores it in place of the current content. */
async function dumped(id: string): Promise<() => Promise<void>> {
  const [row] = (
    await sql('select placement, locator, epoch, last_epoch from multitenancy.tenants where id = $1', [id])
  ).rows
  return async () => {
    await sql('delete from multitenancy.storage_locations where tenant_id = $1', [id])
    await sql('delete from multitenancy.transfers where tenant_id = $1', [id])
    await sql(
      'update multitenancy.tenants set placement = $2, locator = $3, epoch = $4, last_epoch = $5, held_by = null where id = $1',
      [id, row.placement, row.locator, row.epoch, row.last_epoch],
    )
    await tenants().registry.changed(id)
  }
}

test('a tenant that has moved since the dump is in maintenance, and its current storage is unchanged', async () => {
  await install('moved', 'schema-pg')
  const bringBack = await dumped('moved')
  await move('moved')
  const now = await locationOf('moved')
  await bringBack()

  expect(await tenants().reconcileAfterRestore()).toEqual({ kept: ['moved'], transfers: 0, places: 0, purges: 0 })
  await expect(environment.notes('moved')).rejects.toMatchObject({ code: 'E_TENANT_MAINTENANCE' })
  await tenants().exitMaintenance('moved')
  await environment.transfers.work(
    (await environment.transfers.move('moved', { placement: 'other' })).transfer.id,
    only,
  )
  expect((await locationOf('moved')).epoch).toBeGreaterThan(1_000)
  expect(await isThere(now)).toBe(true)
})

test('a transfer at the time of the dump is cancelled, and its storage is not dropped', async () => {
  await install('moving', 'database-pg')
  const bringBack = await dumped('moving')
  await move('moving')
  const now = await locationOf('moving')
  await bringBack()
  const { transfer } = await environment.transfers.move('moving', { placement: 'other' })
  await sql(
    `update multitenancy.transfers set state = 'running', attempts = 1, lease_until = now() - interval '1 hour' where id = $1`,
    [transfer.id],
  )
  await sql(`update multitenancy.tenants set held_by = $1 where id = 'moving'`, [transfer.id])
  await sql(
    `insert into multitenancy.storage_locations (isolation, placement, locator, epoch, tenant_id, transfer_id, state, since)
     values ('database-pg', 'other', $1, 2, 'moving', $2, 'making', now())`,
    [now.locator, transfer.id],
  )
  expect(await tenants().reconcileAfterRestore()).toMatchObject({
    kept: ['moving'],
    transfers: 1,
    places: 1,
  })
  expect(await environment.transfers.get('moving', transfer.id)).toMatchObject({
    state: 'cancelled',
    failure: { code: 'E_TRANSFER_CANCELLED', message: expect.stringContaining('restored') },
  })
  await environment.transfers.work(transfer.id, only)
  await environment.transfers.recover()
  expect(await isThere(now)).toBe(true)
  expect(await tenants().get('moving')).toMatchObject({
    status: 'active',
    maintenance: { message: expect.any(String) },
  })
})

test('databases of tenants are marked, because entries since the dump have no marks', async () => {
  await install('marked', 'database-pg')
  await install('unmarked', 'schema-pg')
  await sql('delete from multitenancy.outbox_marks')
  await tenants().reconcileAfterRestore()
  const { placement, locator } = await locationOf('marked')
  const { rows } = await sql(
    'select placement, locator, tenant_id as "tenantId", isolation from multitenancy.outbox_marks',
  )
  expect(rows).toEqual([{ placement, locator, tenantId: 'marked', isolation: 'database-pg' }])
})

test('the purge of a tenant that was deleted at the time of the dump is postponed', async () => {
  await install('deleted', 'schema-pg')
  await tenants().delete('deleted')
  clock.advance(30 * 86_400_000)
  expect(await tenants().reconcileAfterRestore()).toMatchObject({ purges: 1 })
  expect(await tenants().installation.purge('deleted')).toBe(false)
  clock.advance(30 * 86_400_000)
  expect(await tenants().installation.purge('deleted')).toBe(true)
})

test('nothing is changed if a server is unavailable', async () => {
  await install('asked', 'schema-pg')
  const before = (await sql('select sum(last_epoch) as sum from multitenancy.tenants')).rows
  const away = await environment.open({ role: 'api', placements: { main: {}, other: { url: environment.otherUrl } } })
  await sql('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()', [
    new URL(environment.otherUrl).pathname.slice(1),
  ])
  await sql(`alter database ${new URL(environment.otherUrl).pathname.slice(1)} allow_connections false`)
  try {
    await expect(away.tenants.reconcileAfterRestore()).rejects.toThrow()
    expect((await sql('select sum(last_epoch) as sum from multitenancy.tenants')).rows).toEqual(before)
  } finally {
    await sql(`alter database ${new URL(environment.otherUrl).pathname.slice(1)} allow_connections true`)
  }
})
