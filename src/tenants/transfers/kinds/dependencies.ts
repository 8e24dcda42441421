/** Dependencies of transfer handlers. */

import type { Transitions } from '../../lifecycle/transitions.ts'
import type { Failure } from '../../tenant/failure.ts'
import type { Archives } from '../archive/port.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferRow } from '../model/tables.ts'
import type { SwitchDependencies } from './cutover.ts'

export interface TransferDependencies extends SwitchDependencies {
  readonly transitions: Transitions
  readonly archives: Archives | undefined
  /** Whether archives are encrypted with the application key. */
  readonly isEncrypting: boolean
}

/** The implementation of one kind of transfer. Each method may run twice. */
export interface TransferHandler {
  readonly run: (dependencies: TransferDependencies, attempt: Attempt) => Promise<void>
  /**
   * Reverts the changes of an attempt without success, in a transaction that holds the rows of the tenant and the
   * transfer. Another attempt may follow.
   */
  readonly release?: (dependencies: TransferDependencies, transfer: TransferRow) => Promise<void>
  /** Called if the lease was lost to another process, or the transfer was cancelled. */
  readonly lost?: (dependencies: TransferDependencies, transfer: TransferRow) => Promise<void>
  /** Called after `release` if no attempt follows. */
  readonly failPermanently?: (
    dependencies: TransferDependencies,
    transfer: TransferRow,
    failure: Failure,
  ) => Promise<void>
}
