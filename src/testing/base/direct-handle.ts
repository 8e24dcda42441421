/** Creates a handle that uses a driver directly, without the registry. */

import type { StorageHandle } from '../../tenants/handles/handle.ts'
import { handleOver } from '../../tenants/handles/handles.ts'
import { beginTransaction, type ImportSource } from '../../tenants/handles/router.ts'
import type { IsolationDriver, StorageLocation } from '../../tenants/isolation/driver.ts'

export const directSource = (driver: IsolationDriver, location: StorageLocation): ImportSource => ({
  id: location.tenantId,
  execute: (statement) => driver.execute(location, statement),
  begin: (modes) => beginTransaction(driver, location, modes),
  advanceSequences: async (wanted, signal) => driver.advanceSequences?.(location, wanted, signal),
})

export const directHandle = (driver: IsolationDriver, location: StorageLocation): StorageHandle =>
  handleOver(directSource(driver, location), driver, location)
