/** Runs the suite of all isolation drivers on each driver with its other options, and the leak fuzzer on all. */
import { inject } from 'vitest'
import { isolationSuite } from '../../../testing/isolation/suite.ts'
import { leakTests } from './leak.fixture.ts'
import { KINDS, openSubject, SLOW_KINDS } from './subject.fixture.ts'

for (const kind of SLOW_KINDS)
  await isolationSuite(kind, () => openSubject(inject('postgresUrl'), kind), KINDS[kind]?.engine)

leakTests(Object.keys(KINDS), 1_500)
