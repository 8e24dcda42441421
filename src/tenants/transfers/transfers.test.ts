/** Backups, restores, clones and moves through the public API. Limits of requests: transfers.requests.test.ts. */
import { describe, expect, test } from 'vitest'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { useTransfers } from './transfers.fixture.ts'

const here = useTransfers()

describe('a tenant', () => {
  test.each(ISOLATIONS)('a tenant on %s is backed up during use and restored unchanged', (isolation) =>
    here.checks.restoresBackup(isolation),
  )

  test.each(ISOLATIONS)('a tenant on %s returns to the storage before a restore, and back', (isolation) =>
    here.checks.returnsFromRestore(isolation),
  )

  test('clones with rows and metadata into an independent tenant', () => here.checks.clonesWithRows('schema-pg'))

  test('clones without rows', () => here.checks.clonesWithoutRows('rowscope-pg'))

  // Each driver is a source and a target once; all pairs are in the slow tier.
  test.each([
    ['schema-pg', 'rowscope-pg', 'other'],
    ['rowscope-pg', 'database-pg', 'main'],
    ['database-pg', 'schema-pg', 'other'],
  ])('moves from %s to %s at %s, and returns', (from, to, placement) =>
    here.checks.movesAndReturns(from, to, placement),
  )

  test('rejects a move to the current driver and placement', async () => {
    await here.environment.tenant('stays')
    await expect(here.environment.transfers.move('stays', { isolation: 'schema-pg' })).rejects.toMatchObject({
      code: 'E_TENANT_STATE',
    })
  })

  test('backs up, restores and moves a suspended tenant, which stays closed', () =>
    here.checks.keepsSuspended('schema-pg'))

  test('rehearses a backup without changes to the tenant', () => here.checks.rehearses('rowscope-pg'))

  test('leaves nothing after a purge', () => here.checks.purges('schema-pg'))
})
