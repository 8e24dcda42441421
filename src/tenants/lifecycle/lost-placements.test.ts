/** Permanently lost servers: their storage blocks a purge until an operator declares the loss. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { installed } from '../../testing/base/tenancy.ts'

let environment: TestEnvironment
let clock: FakeClock
beforeAll(async () => {
  clock = fakeClock()
  environment = await openTestEnvironment(inject('postgresUrl'), { clock })
})
afterAll(() => environment.end())

const sql = (text: string, values?: unknown[]) => environment.tenancy.kernel.database.sql(text, values)
const tenants = () => environment.tenancy.tenants
const lose = (id: string, server: string) =>
  sql(`update multitenancy.tenants set placement = $2 where id = $1`, [id, server])
const placesOf = async (id: string) =>
  (await sql('select placement, state from multitenancy.storage_locations where tenant_id = $1', [id])).rows

test('purges a tenant of a lost placement only after the placement was declared lost', async () => {
  await installed(environment.tenancy, { id: 'drowned', name: 'Drowned', placement: 'other' })
  await lose('drowned', 'flooded')
  await tenants().delete('drowned')
  clock.advance(31 * 86_400_000)
  await expect(tenants().installation.purge('drowned')).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  expect(await tenants().lostPlacements.forget('flooded')).toEqual({ placement: 'flooded', tenants: 1, left: 0 })
  expect(await tenants().installation.purge('drowned')).toBe(true)
  await expect(tenants().get('drowned')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
})

test('drops records of former storage on a lost placement, and keeps the tenant on its new one', async () => {
  const { id } = await environment.tenant('swum', { placement: 'other' })
  await environment.done(await environment.transfers.move(id, { placement: 'main' }))
  await sql(`update multitenancy.storage_locations set placement = 'burnt' where tenant_id = $1`, [id])
  clock.advance(31 * 86_400_000)
  await expect(environment.transfers.recover()).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  expect(await placesOf(id)).toEqual([{ placement: 'burnt', state: 'abandoned' }])
  expect(await tenants().lostPlacements.forget('burnt')).toEqual({ placement: 'burnt', tenants: 0, left: 1 })
  await environment.transfers.recover()
  expect(await placesOf(id)).toEqual([])
  expect(await environment.notes(id)).toEqual(['first', 'second'])
})

test('rejects the loss of a configured or unknown placement', async () => {
  await expect(tenants().lostPlacements.forget('other')).rejects.toMatchObject({ code: 'E_PLACEMENT_IN_USE' })
  await expect(tenants().lostPlacements.forget('nowhere')).rejects.toMatchObject({ code: 'E_PLACEMENT_NOT_FOUND' })
})

test('a placement that is configured again is no longer lost', async () => {
  await installed(environment.tenancy, { id: 'back', name: 'Back', placement: 'other' })
  await sql(`insert into multitenancy.lost_placements values ('other', now()), ('gone', now())`)
  await environment.open()
  expect(
    (await sql(`select placement from multitenancy.lost_placements where placement in ('other', 'gone')`)).rows,
  ).toEqual([{ placement: 'gone' }])
})
