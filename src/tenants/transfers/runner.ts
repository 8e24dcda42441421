/**
 * Carries out one attempt of a transfer, in the process that has the job.
 *
 *   claimed ─► storage of earlier attempts is abandoned ─► handler of its kind ─► completed with its changes, atomically
 *                 │ transient error, or the signal aborts: released, the job comes again
 *                 │ clone, and the server cannot store data: released, continues in a new job
 *                 └ permanent error, or the last attempt: failed, everything is as before
 */
import { writeFailure } from '../../kernel/database/write-failures.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Attempt as JobAttempt } from '../../kernel/jobs/jobs.ts'
import { AttemptLost } from '../../kernel/jobs/lease.ts'
import { CONTINUED_AFTER_SECONDS, type Failure, failureOf, mayPass } from '../tenant/failure.ts'
import { Attempt } from './execution/attempt.ts'
import { lockedRow } from './kinds/cutover.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import { ACTIONS, HANDLERS } from './kinds/index.ts'
import { JOBS } from './requests/job-types.ts'

const FAILED: Failure = { code: 'E_TRANSFER_FAILED', message: 'The transfer failed. See the log for the cause.' }

export interface WorkOptions extends Pick<JobAttempt, 'isLast' | 'signal'> {
  /** Lease duration: time without a renewal after which another attempt may start; default 15,000. */
  readonly leaseMs?: number | undefined
}

/** Returns if the transfer has ended, or another process works on it. Throws transient errors. */
export async function work(
  dependencies: TransferDependencies,
  transferId: string,
  { isLast, signal, leaseMs }: WorkOptions,
): Promise<void> {
  const attempt = await Attempt.claim(dependencies.kernel, transferId, { leaseMs, signal })
  if (!attempt) return
  try {
    await discard(dependencies, attempt)
    await HANDLERS[attempt.transfer.kind].run(dependencies, attempt)
  } catch (error) {
    try {
      if (await ended(dependencies, attempt, error, { isLast, signal })) return
      throw error
    } finally {
      await discard(dependencies, attempt, attempt.epochs) // after the release of the tenant: drops can take long
    }
  } finally {
    await attempt.close()
  }
}

/** Returns whether no further attempt is needed. */
async function ended(
  dependencies: TransferDependencies,
  attempt: Attempt,
  error: unknown,
  { isLast, signal }: WorkOptions,
): Promise<boolean> {
  const { id, kind, tenantId } = attempt.transfer
  if (error instanceof AttemptLost || attempt.signal.reason instanceof AttemptLost) {
    await HANDLERS[kind].lost?.(dependencies, attempt.transfer)
    return true
  }
  if (!signal.aborted && kind === 'clone' && writeFailure(error) !== undefined) {
    await continueLater(dependencies, attempt, error)
    return true
  }
  if (signal.aborted || (!isLast && mayPass(error))) {
    await release(dependencies, attempt)
    return false
  }
  dependencies.kernel.log.error({ err: error, tenantId, transferId: id, kind }, 'transfer failed')
  await failPermanently(dependencies, attempt, failureOf(error, FAILED))
  return true
}

/** A full or read-only server fails no new tenant: its clone continues in a new job. Such an attempt does not count. */
async function continueLater(
  { kernel, ...rest }: TransferDependencies,
  attempt: Attempt,
  error: unknown,
): Promise<void> {
  const { database, jobs, log } = kernel
  const { id, kind, tenantId } = attempt.transfer
  log.warn({ err: error, tenantId, transferId: id }, 'the server could not store data; the clone of the tenant waits')
  await database.transaction(async () => {
    await release({ kernel, ...rest }, attempt)
    await database.sql(
      `update multitenancy.transfers set attempts = attempts - 1 where id = $1 and state = 'pending'`,
      [id],
    )
    await jobs.send(JOBS[kind], { transferId: id }, { tenantId, key: id, afterSeconds: CONTINUED_AFTER_SECONDS })
  })
}

/** After an abort or a transient error: leaves the rest to the next attempt. */
async function release(dependencies: TransferDependencies, attempt: Attempt): Promise<void> {
  await heldOrLost(dependencies, attempt, async () => {
    await HANDLERS[attempt.transfer.kind].release?.(dependencies, attempt.transfer)
    await attempt.release()
  })
}

/** Fails a transfer after too many interrupted attempts. */
export async function failLost(dependencies: TransferDependencies, transferId: string): Promise<void> {
  const attempt = await Attempt.claim(dependencies.kernel, transferId, { signal: new AbortController().signal })
  if (!attempt) return
  try {
    await discard(dependencies, attempt)
    await failPermanently(dependencies, attempt, {
      code: 'E_TRANSFER_LOST',
      message: 'All attempts of the transfer were interrupted.',
    })
  } finally {
    await attempt.close()
  }
}

/** Abandons and drops the storage of this transfer. RecoverTransfers drops the rest later. */
async function discard(
  { stagedStorage, kernel }: TransferDependencies,
  { transfer }: Attempt,
  epochs?: readonly number[],
): Promise<void> {
  try {
    await stagedStorage.abandon(transfer.id, epochs)
    await stagedStorage.drop({ transferId: transfer.id })
  } catch (error) {
    kernel.log.warn({ err: error, transferId: transfer.id }, 'could not drop the storage of an attempt')
  }
}

async function failPermanently(dependencies: TransferDependencies, attempt: Attempt, failure: Failure): Promise<void> {
  const { kernel, registry } = dependencies
  const { id, kind, tenantId } = attempt.transfer
  await heldOrLost(dependencies, attempt, async () => {
    await HANDLERS[kind].release?.(dependencies, attempt.transfer)
    await attempt.end('failed', failure)
    await HANDLERS[kind].failPermanently?.(dependencies, attempt.transfer, failure)
    await registry.changed(tenantId)
    await recordChange(kernel.events, {
      action: ACTIONS[kind],
      tenantId,
      target: `transfer:${id}`,
      after: { failure },
      outcome: 'failure',
    })
  })
}

/**
 * In a transaction with the rows of the tenant and the transfer. Returns undefined if another attempt holds the
 * transfer.
 */
async function heldOrLost(
  dependencies: TransferDependencies,
  attempt: Attempt,
  change: () => Promise<void>,
): Promise<void> {
  try {
    await dependencies.kernel.database.transaction(async () => {
      await lockedRow(dependencies, attempt.transfer.tenantId)
      await attempt.hold()
      await change()
    })
  } catch (error) {
    if (!(error instanceof AttemptLost)) throw error
  }
}
