/** The leak fuzzer on each driver, for a short time. */
import { leakTests } from './leak.fixture.ts'
import { FAST_KINDS } from './subject.fixture.ts'

const COSTLY = 'database-pg, batch' // a database for each tenant: the slow tier has more tenants

leakTests(
  FAST_KINDS.filter((kind) => kind !== COSTLY),
  150,
)
leakTests([COSTLY], 150, ['a', 'b', 'a-b'])
