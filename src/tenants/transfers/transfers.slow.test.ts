/** Transfers on each driver, and between any two. */
import { describe, expect, test } from 'vitest'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { useTransfers } from './transfers.fixture.ts'

const here = useTransfers()

describe.each(ISOLATIONS)('a tenant on %s', (isolation) => {
  const DESTINATIONS = ISOLATIONS.flatMap((to) => ['main', 'other'].map((placement) => [to, placement] as const))

  test('clones with rows and metadata into an independent tenant', () => here.checks.clonesWithRows(isolation))

  test('clones without rows', () => here.checks.clonesWithoutRows(isolation))

  test.each(DESTINATIONS.filter(([to, placement]) => to !== isolation || placement !== 'main'))(
    'moves to %s at %s, and returns',
    (to, placement) => here.checks.movesAndReturns(isolation, to, placement),
  )

  test('rejects a move to the current driver and placement', async () => {
    const { id } = await here.environment.tenant(`stays-${isolation.slice(0, 3)}`, { isolation })
    await expect(here.environment.transfers.move(id, { isolation })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('backs up, restores and moves a suspended tenant, which stays closed', () =>
    here.checks.keepsSuspended(isolation))

  test('rehearses a backup without changes to the tenant', () => here.checks.rehearses(isolation))

  test('leaves nothing after a purge', () => here.checks.purges(isolation))
})
