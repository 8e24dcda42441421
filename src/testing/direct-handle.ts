/** A handle straight to a driver, with no registry before it: for tests of drivers. */
import { handleOver } from '../tenants/handles.ts'
import type { IsolationDriver, Place, TenantHandle } from '../tenants/isolation.ts'
import { begun } from '../tenants/tenant-source.ts'

export const directHandle = (driver: IsolationDriver, place: Place): TenantHandle =>
  handleOver(
    {
      id: place.tenantId,
      execute: (statement) => driver.execute(place, statement),
      begin: (modes) => begun(driver, place, modes),
      connect: () => driver.connect(place),
    },
    driver,
    place,
  )
