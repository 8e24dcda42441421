/** Runs the leak fuzzer on each driver for a short time. */
import { leakTests } from './leak.fixture.ts'
import { FAST_KINDS } from './subject.fixture.ts'

const COSTLY = 'database-pg, batch' // a database for each tenant is slow to create: the slow tier has more tenants

leakTests(
  FAST_KINDS.filter((kind) => kind !== COSTLY),
  150,
)
leakTests([COSTLY], 150, ['a', 'b', 'a-b'])
