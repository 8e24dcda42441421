/**
 * One attempt at a transfer: the process that claims it holds its lease, and a further attempt starts from the
 * beginning.
 */
import { sql } from 'kysely'
import type { Logger } from '../../../kernel/base/logger.ts'
import { repeat } from '../../../kernel/base/repeat.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { AttemptLost, createLease, expired, type Lease, leasedUntil } from '../../../kernel/jobs/lease.ts'
import type { TransferOptions } from '../../isolation/driver.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import type { TransferRow } from '../model/tables.ts'
import type { Phase } from '../model/transfer.ts'
import { Meter } from './progress.ts'

const LEASE_MS = 15_000
/** A renewal also publishes the progress, so renewals are more frequent than a lease needs. */
const RENEWALS_PER_LEASE = 15
const PROGRESS = `, phase = $4, progress = $5, progressed_at = case
  when work.phase is distinct from $4 or work.progress is distinct from $5 then now() else work.progressed_at end`
const TRANSFERS = { table: 'multitenancy.transfers', group: 'id', row: 'id' }

export class Attempt {
  readonly transfer: TransferRow
  readonly meter = new Meter()
  /** Epochs of the storage locations that this attempt has created. */
  readonly epochs: number[] = []
  /** Aborts if the lease is lost or the caller's signal aborts. */
  readonly signal: AbortSignal
  /** Stops the renewals. */
  readonly close: () => Promise<void>
  readonly #lease: Lease
  readonly #log: Logger
  readonly #lost = new AbortController()
  #phase: Phase = 'waiting'
  #renewal: Promise<void> = Promise.resolve()

  /**
   * Undefined if the transfer has ended or another process works on it.
   * @param signal ends the attempt, not the transfer
   */
  static async claim(
    { database, log }: { database: Database; log: Logger },
    id: string,
    { leaseMs = LEASE_MS, signal }: { leaseMs?: number | undefined; signal: AbortSignal },
  ): Promise<Attempt | undefined> {
    const lease = createLease(database, TRANSFERS, id, leaseMs)
    const transfer = await database
      .query<TenantTables>()
      .updateTable('transfers')
      .set(({ eb }) => ({
        state: 'running',
        phase: 'waiting',
        progress: null,
        attempts: eb('attempts', '+', 1),
        worker: lease.worker,
        leaseUntil: sql.raw<Date>(leasedUntil(leaseMs)),
        startedAt: sql<Date>`now()`,
      }))
      .where('id', '=', id)
      .where(({ eb, or }) => or([eb('state', '=', 'pending'), sql.raw<boolean>(expired('transfers'))]))
      .returningAll()
      .executeTakeFirst()
    return transfer && new Attempt(transfer, lease, log, leaseMs, signal)
  }

  private constructor(transfer: TransferRow, lease: Lease, log: Logger, leaseMs: number, signal: AbortSignal) {
    this.transfer = transfer
    this.#lease = lease
    this.#log = log
    this.signal = AbortSignal.any([signal, this.#lost.signal])
    this.close = repeat(() => this.#renew(), leaseMs / RENEWALS_PER_LEASE, this.#notRenewed)
  }

  /**
   * Publishes the phase, or leaves it to the next renewal while another session locks the row. Throws if the lease is
   * lost.
   */
  async phase(phase: Phase): Promise<void> {
    this.#phase = phase
    await this.#renew()
    this.signal.throwIfAborted()
  }

  /** Options of the calls to the isolation driver. */
  get options(): TransferOptions {
    return {
      signal: this.signal,
      onPhase: (phase) => {
        this.phase(phase).catch((error) => {
          if (!this.signal.aborted) this.#notRenewed(error)
        })
      },
    }
  }

  /** In a transaction: until it ends, no other process takes over, ends or cancels this transfer. */
  async hold(): Promise<void> {
    const row = await this.#lease.lock(this.transfer.id)
    if (!row) throw this.#lose()
    this.transfer.enteredMaintenance = row.entered_maintenance // an operator may have taken over the maintenance
  }

  /** In a transaction that has called `hold`. */
  async end(state: 'completed' | 'failed', failure: TransferRow['failure'] = null): Promise<void> {
    const phase = state === 'completed' ? 'done' : this.#phase
    const isEnded = await this.#lease.update(
      'state = $3, failure = $4, progress = $5, phase = $6, finished_at = now(), worker = null',
      [state, failure, this.meter.progress, phase],
    )
    if (!isEnded) throw this.#lose()
  }

  /** Allows the next attempt immediately. No effect if the lease is lost. */
  async release(): Promise<void> {
    await this.#lease.update(`state = 'pending', worker = null`)
  }

  /** One renewal at a time: a renewal skips the row while another one locks it, and its phase would be lost. */
  #renew(): Promise<void> {
    const phase = this.#phase
    const renewal = this.#renewal.then(async () => {
      if (!(await this.#lease.renew(PROGRESS, [phase, this.meter.progress]))) this.#lose()
    })
    this.#renewal = renewal.catch(() => undefined) // the caller of this renewal handles its failure
    return renewal
  }

  readonly #notRenewed = (error: unknown): void => {
    this.#log.warn({ err: error, transfer: this.transfer.id }, 'could not renew the lease of a transfer')
  }

  #lose(): AttemptLost {
    const lost = new AttemptLost(`Transfer ${this.transfer.id} no longer belongs to this attempt.`)
    this.#lost.abort(lost)
    return lost
  }
}
