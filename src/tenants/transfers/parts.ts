/** What carrying out a transfer needs; the same for all kinds. */
import type { Failure } from '../failure.ts'
import type { Transitions } from '../transition.ts'
import type { Archives } from './archives.ts'
import type { Attempt } from './attempt.ts'
import type { TransferRow } from './rows.ts'
import type { SwitchParts } from './switch.ts'

export interface TransferParts extends SwitchParts {
  readonly transitions: Transitions
  readonly archives: Archives | undefined
  /** Whether archives are sealed under the application key. */
  readonly isSealing: boolean
}

/** How one kind of transfer is carried out. Each may run twice. */
export interface Course {
  readonly carryOut: (parts: TransferParts, attempt: Attempt) => Promise<void>
  /**
   * When an attempt ends that has not succeeded, in a transaction that holds the tenant's row and the transfer: puts back what it had
   * changed. Another attempt may follow.
   */
  readonly release?: (parts: TransferParts, transfer: TransferRow) => Promise<void>
  /** When it is another's by now, or cancelled. */
  readonly lost?: (parts: TransferParts, transfer: TransferRow) => Promise<void>
  /** After `release`, when no attempt will follow. */
  readonly giveUp?: (parts: TransferParts, transfer: TransferRow, failure: Failure) => Promise<void>
}
