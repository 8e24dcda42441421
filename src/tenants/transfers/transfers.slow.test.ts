/** Transfers on every driver, and between any two. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ISOLATIONS, openWorld, type World } from '../../testing/two-servers.ts'
import { type TransferChecks, transferChecks } from './transfers.fixture.ts'

let world: World
let checks: TransferChecks
beforeAll(async () => {
  world = await openWorld(inject('postgresUrl'))
  checks = transferChecks(world)
})
afterAll(() => world.end())

describe.each(ISOLATIONS)('a tenant on %s', (isolation) => {
  const DESTINATIONS = ISOLATIONS.flatMap((to) => ['main', 'other'].map((placement) => [to, placement] as const))

  test('is cloned with its rows and its metadata, and the two are independent', () => checks.clonesWithRows(isolation))

  test('is cloned without its rows', () => checks.clonesWithoutRows(isolation))

  test.each(DESTINATIONS.filter(([to, placement]) => to !== isolation || placement !== 'main'))(
    'moves to %s at %s, and returns',
    (to, placement) => checks.movesAndReturns(isolation, to, placement),
  )

  test('does not move to the place that it has', async () => {
    const { id } = await world.tenant(`stays-${isolation.slice(0, 3)}`, { isolation })
    await expect(world.transfers.move(id, { isolation })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('that is suspended is backed up, restored and moved, and stays closed', () => checks.keepsSuspended(isolation))

  test('is not affected by the rehearsal of a backup', () => checks.rehearses(isolation))

  test('leaves nothing when it is purged', () => checks.purges(isolation))
})
