/** Runs the suite of all isolation drivers on schema-pg. The leak fuzzer is in leak.test.ts. */
import { inject } from 'vitest'
import { isolationSuite } from '../../../testing/isolation/suite.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'schema-pg, batch'

await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'postgres')
