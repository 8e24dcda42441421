/** A driver for archives under test. */
import type { Archives } from '../../tenants/transfers/archive/port.ts'
import type { ArchivesSubject } from './subject.ts'

/** What the storage behind a driver can do. Leaving one out leaves out its tests: say in their file why. */
export interface ArchivesAbilities {
  /** It lists what is partial, and takes it back when it is told to. Default true. */
  readonly knowsPartial?: boolean
  /** Whoever reads an archive that is replaced meanwhile reads one of the two. Default true. */
  readonly replacesAtOnce?: boolean
  /** Bytes that the driver sends or reads at a time: the size of most archives in the suite follows from it. Default 8 MiB. */
  readonly partBytes?: number
  /**
   * The tests to register: what a killed process leaves, the memory of large archives, several writers of one key, and the rest.
   * Default: all.
   */
  readonly parts?: readonly ('crash' | 'memory' | 'writers' | 'rest')[]
}

/** What each part of the suite works with; the storage is empty before each test. */
export interface ArchivesProof {
  readonly subject: ArchivesSubject
  readonly archives: Archives
}
