/** An isolation driver under test, with two tenants. */

import type { TenantHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import type { Subject } from '../base/subject.ts'

/** What each part of the suite works with; made before its tests run. */
export interface Proof {
  readonly subject: Subject
  readonly driver: IsolationDriver
  /** Two tenants with rows of their own, as before each test: ids 1 and 2, with the values 1 and 2. */
  readonly a: TenantHandle
  readonly b: TenantHandle
}
