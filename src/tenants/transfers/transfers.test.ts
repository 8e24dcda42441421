/** Backups, restores, clones and moves, as a host sees them. Requests and their limits are in transfers.requests.test.ts. */
import { describe, expect, test } from 'vitest'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { useTransfers } from './transfers.fixture.ts'

const here = useTransfers()

describe('a tenant', () => {
  test.each(ISOLATIONS)('on %s is backed up while it is used, and restored as it was', (isolation) =>
    here.checks.restoresBackup(isolation),
  )

  test.each(ISOLATIONS)('on %s returns to what a restore has left, and back', (isolation) =>
    here.checks.returnsFromRestore(isolation),
  )

  test('is cloned with its rows and its metadata, and the two are independent', () =>
    here.checks.clonesWithRows('schema-pg'))

  test('is cloned without its rows', () => here.checks.clonesWithoutRows('rowscope-pg'))

  // Each driver is left and reached once; all pairs are in the slow tier.
  test.each([
    ['schema-pg', 'rowscope-pg', 'other'],
    ['rowscope-pg', 'database-pg', 'main'],
    ['database-pg', 'schema-pg', 'other'],
  ])('moves from %s to %s at %s, and returns', (from, to, placement) =>
    here.checks.movesAndReturns(from, to, placement),
  )

  test('does not move to the place that it has', async () => {
    await here.environment.tenant('stays')
    await expect(here.environment.transfers.move('stays', { isolation: 'schema-pg' })).rejects.toMatchObject({
      code: 'E_TENANT_STATE',
    })
  })

  test('that is suspended is backed up, restored and moved, and stays closed', () =>
    here.checks.keepsSuspended('schema-pg'))

  test('is not affected by the rehearsal of a backup', () => here.checks.rehearses('rowscope-pg'))

  test('leaves nothing when it is purged', () => here.checks.purges('schema-pg'))
})
