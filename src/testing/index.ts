/** `tenantry/testing`: fixtures for tests of hosts, and the suites that custom drivers must pass. */

export type { ArchivesAbilities } from './archives/proof.ts'
export type { ArchivesSubject } from './archives/subject.ts'
export { archivesSuite } from './archives/suite.ts'
export { type FakeClock, fakeClock } from './base/clock.ts'
export { createTestDatabase, type TestDatabase } from './base/database.ts'
export { locationIn, proofMigrations, type StorageView, type Subject } from './base/subject.ts'
export { eventually, installed, type TestTenancy, testTenancy } from './base/tenancy.ts'
export { isolationSuite } from './isolation/suite.ts'
export { type LeakFuzzOptions, type LeakReport, leakFuzz } from './leak/fuzzer.ts'
export { storeSuite } from './store/suite.ts'
