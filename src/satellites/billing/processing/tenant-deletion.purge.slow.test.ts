/** Tests a purge that overlaps the end of the processing of an event. */
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { openWith, purgesDuringWork } from './tenant-deletion.fixture.ts'

describe.each(['cancel', 'detach', 'preserve'] as const)('with %s', (onTenantDelete) => {
  let open: OpenBilling
  beforeAll(async () => {
    open = await openWith(onTenantDelete)
  })
  afterAll(() => open.end())

  test.each([1, 2, 3, 4, 5])('a purge during the processing leaves no row of the tenant, round %i', async () => {
    await purgesDuringWork(open, (purge, respond) => {
      const purging = purge()
      respond()
      return purging
    })
  })
})
