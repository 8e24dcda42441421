/** Options and shared state of `archivesSuite`. */
import type { Archives } from '../../tenants/transfers/archive/port.ts'
import type { ArchivesSubject } from './subject.ts'

/**
 * Abilities of the storage behind a driver. A missing ability leaves out its tests: give the reason in the test file.
 */
export interface ArchivesAbilities {
  /** Whether the driver lists partial archives and removes them on request. Default true. */
  readonly knowsPartial?: boolean
  /** Whether a reader of an archive that is being replaced gets exactly one of the two versions. Default true. */
  readonly replacesAtOnce?: boolean
  /**
   * Bytes that the driver sends or reads in one part; most archive sizes of the suite derive from it. Default 8 MiB.
   */
  readonly partBytes?: number
  /**
   * Groups of tests to register: remains of a killed process, memory for large archives, concurrent writers, the rest.
   * Default: all.
   */
  readonly parts?: readonly ('crash' | 'memory' | 'writers' | 'rest')[]
}

/** Driver under test; its storage is empty before each test. */
export interface ArchivesProof {
  readonly subject: ArchivesSubject
  readonly archives: Archives
}
