/** The suite of all isolation drivers, on sqlite-memory; then the leak fuzzer, for a short time. */
import { inject } from 'vitest'
import { isolationSuite } from '../../testing/isolation-suite.ts'
import { leakTests } from './leak.fixture.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'sqlite-memory'

await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'sqlite')

leakTests([KIND], 150)
