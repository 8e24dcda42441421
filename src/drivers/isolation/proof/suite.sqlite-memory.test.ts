/** Runs the suite of all isolation drivers on sqlite-memory. The leak fuzzer is in leak.test.ts. */
import { inject } from 'vitest'
import { isolationSuite } from '../../../testing/isolation/suite.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'sqlite-memory'

await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'sqlite')
