/** A handle straight to a driver, with no registry before it: for tests of drivers. */

import type { TenantHandle } from '../../tenants/handles/handle.ts'
import { handleOver } from '../../tenants/handles/handles.ts'
import { begun, type ImportSource } from '../../tenants/handles/router.ts'
import type { IsolationDriver, Place } from '../../tenants/isolation/driver.ts'

export const directSource = (driver: IsolationDriver, place: Place): ImportSource => ({
  id: place.tenantId,
  execute: (statement) => driver.execute(place, statement),
  begin: (modes) => begun(driver, place, modes),
  advanceSequences: async (wanted, signal) => driver.advanceSequences?.(place, wanted, signal),
})

export const directHandle = (driver: IsolationDriver, place: Place): TenantHandle =>
  handleOver(directSource(driver, place), driver, place)
