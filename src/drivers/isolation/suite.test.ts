/** The suite of all isolation drivers, on each driver; then the leak fuzzer, for a short time. */
import { inject } from 'vitest'
import { isolationSuite } from '../../testing/isolation-suite.ts'
import { leakTests } from './leak.fixture.ts'
import { FAST_KINDS, KINDS, openSubject } from './subject.fixture.ts'

for (const kind of FAST_KINDS)
  await isolationSuite(kind, () => openSubject(inject('postgresUrl'), kind), KINDS[kind]?.engine)

leakTests(FAST_KINDS, 300)
