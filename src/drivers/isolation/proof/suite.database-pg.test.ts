/** Runs the suite of all isolation drivers on database-pg. The leak fuzzer is in leak.test.ts. */
import { inject } from 'vitest'
import { isolationSuite } from '../../../testing/isolation/suite.ts'
import { openSubject } from './subject.fixture.ts'

const KIND = 'database-pg, batch'

// A database for each tenant is slow to create: the slow tier has one for each of the ids.
await isolationSuite(KIND, () => openSubject(inject('postgresUrl'), KIND), 'postgres', ['a_b', 'a-b', 'x--drop'])
