/**
 * Carries out transfers, one attempt after the other, in whichever process has the job.
 *
 *   claimed ─► what earlier attempts made is given up ─► the handler of its kind ─► completed, with what it changes, at once
 *                 │ passing trouble, or told to stop: released and given back, the job comes again
 *                 └ it cannot succeed, or this was the last time: failed, and everything is as before
 */
import { recordChange } from '../../kernel/events/changes.ts'
import type { Attempt as JobAttempt } from '../../kernel/jobs/jobs.ts'
import { AttemptLost } from '../../kernel/jobs/lease.ts'
import { type Failure, failureOf, mayPass } from '../tenant/failure.ts'
import { Attempt } from './execution/attempt.ts'
import { lockedRow } from './kinds/cutover.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import { ACTIONS, HANDLERS } from './kinds/index.ts'

const FAILED: Failure = { code: 'E_TRANSFER_FAILED', message: 'The transfer failed; the log says why.' }

export interface WorkOptions extends Pick<JobAttempt, 'isLast' | 'signal'> {
  /** How long what holds the transfer may be silent; default 15,000. */
  readonly leaseMs?: number | undefined
}

/** Nothing when it has ended, or somebody else is at work on it; throws what may pass. */
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
      await discard(dependencies, attempt, attempt.epochs) // after the tenant was let go of: drops may take their time
    }
  } finally {
    await attempt.close()
  }
}

/** Whether nobody has to try it again. */
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
  if (signal.aborted || (!isLast && mayPass(error))) {
    await release(dependencies, attempt)
    return false
  }
  dependencies.kernel.log.error({ err: error, tenantId, transferId: id, kind }, 'a transfer was given up')
  await failPermanently(dependencies, attempt, failureOf(error, FAILED))
  return true
}

/** Whoever was told to stop, or met what may pass, leaves the rest to the next attempt. */
async function release(dependencies: TransferDependencies, attempt: Attempt): Promise<void> {
  await heldOrLost(dependencies, attempt, async () => {
    await HANDLERS[attempt.transfer.kind].release?.(dependencies, attempt.transfer)
    await attempt.release()
  })
}

/** Ends one that no attempt has brought to an end, however often. */
export async function failLost(dependencies: TransferDependencies, transferId: string): Promise<void> {
  const attempt = await Attempt.claim(dependencies.kernel, transferId, { signal: new AbortController().signal })
  if (!attempt) return
  try {
    await discard(dependencies, attempt)
    await failPermanently(dependencies, attempt, {
      code: 'E_TRANSFER_LOST',
      message: 'The transfer was interrupted at every attempt.',
    })
  } finally {
    await attempt.close()
  }
}

/** What this transfer has made so far, and has no use for; what cannot be dropped now is dropped by RecoverTransfers. */
async function discard(
  { stagedStorage, kernel }: TransferDependencies,
  { transfer }: Attempt,
  epochs?: readonly number[],
): Promise<void> {
  try {
    await stagedStorage.abandon(transfer.id, epochs)
    await stagedStorage.drop({ transferId: transfer.id })
  } catch (error) {
    kernel.log.warn({ err: error, transferId: transfer.id }, 'what an attempt has made is still there')
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

/** In a transaction with the tenant's row and the transfer; nothing, when that is another attempt's by now. */
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
