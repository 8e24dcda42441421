/** The suite of all isolation drivers, on database-pg; then the leak fuzzer, for a short time. */
import { inject } from 'vitest'
import { isolationSuite } from '../../testing/isolation-suite.ts'
import { leakTests } from './leak.fixture.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'database-pg, batch'

await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'postgres')

leakTests([KIND], 150)
