/** What carrying out a transfer needs; the same for all kinds. */

import type { Transitions } from '../../lifecycle/transitions.ts'
import type { Failure } from '../../tenant/failure.ts'
import type { Archives } from '../archive/port.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferRow } from '../model/tables.ts'
import type { SwitchDependencies } from './cutover.ts'

export interface TransferDependencies extends SwitchDependencies {
  readonly transitions: Transitions
  readonly archives: Archives | undefined
  /** Whether archives are encrypted under the application key. */
  readonly isEncrypting: boolean
}

/** How one kind of transfer is carried out. Each may run twice. */
export interface TransferHandler {
  readonly run: (dependencies: TransferDependencies, attempt: Attempt) => Promise<void>
  /**
   * When an attempt ends that has not succeeded, in a transaction that holds the tenant's row and the transfer: puts back what it had
   * changed. Another attempt may follow.
   */
  readonly release?: (dependencies: TransferDependencies, transfer: TransferRow) => Promise<void>
  /** When it is another's by now, or cancelled. */
  readonly lost?: (dependencies: TransferDependencies, transfer: TransferRow) => Promise<void>
  /** After `release`, when no attempt will follow. */
  readonly failPermanently?: (
    dependencies: TransferDependencies,
    transfer: TransferRow,
    failure: Failure,
  ) => Promise<void>
}
