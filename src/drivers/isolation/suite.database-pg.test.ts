/** The suite of all isolation drivers, on database-pg; then the leak fuzzer, for a short time. */
import { inject } from 'vitest'
import { isolationSuite } from '../../testing/isolation-suite.ts'
import { leakTests } from './leak.fixture.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'database-pg, batch'

// A database for each tenant is costly: the slow tier has one for each of the ids, and a fuzzer with more tenants.
await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'postgres', ['a_b', 'a-b', 'x--drop'])

leakTests([KIND], 150, ['a', 'b', 'a-b'])
