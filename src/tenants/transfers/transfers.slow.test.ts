/** Transfers on every driver, and between any two. */
import { describe, expect, test } from 'vitest'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { useTransfers } from './transfers.fixture.ts'

const here = useTransfers()

describe.each(ISOLATIONS)('a tenant on %s', (isolation) => {
  const DESTINATIONS = ISOLATIONS.flatMap((to) => ['main', 'other'].map((placement) => [to, placement] as const))

  test('is cloned with its rows and its metadata, and the two are independent', () =>
    here.checks.clonesWithRows(isolation))

  test('is cloned without its rows', () => here.checks.clonesWithoutRows(isolation))

  test.each(DESTINATIONS.filter(([to, placement]) => to !== isolation || placement !== 'main'))(
    'moves to %s at %s, and returns',
    (to, placement) => here.checks.movesAndReturns(isolation, to, placement),
  )

  test('does not move to the place that it has', async () => {
    const { id } = await here.environment.tenant(`stays-${isolation.slice(0, 3)}`, { isolation })
    await expect(here.environment.transfers.move(id, { isolation })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('that is suspended is backed up, restored and moved, and stays closed', () =>
    here.checks.keepsSuspended(isolation))

  test('is not affected by the rehearsal of a backup', () => here.checks.rehearses(isolation))

  test('leaves nothing when it is purged', () => here.checks.purges(isolation))
})
