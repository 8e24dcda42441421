/** State that the groups of `isolationSuite` share. */

import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import type { Subject } from '../base/subject.ts'

/** Driver under test with two tenants; created before the tests run. */
export interface Proof {
  readonly subject: Subject
  readonly driver: IsolationDriver
  /** Two tenants; before each test, each has rows with the ids 1 and 2 and the values 1 and 2. */
  readonly a: StorageHandle
  readonly b: StorageHandle
}
