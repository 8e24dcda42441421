/**
 * One attempt at a transfer: claimed by one process, and held by a lease that it renews as long as it lives. The server's clock
 * says how long. Whoever is killed is followed by another attempt, from the beginning; whoever was only slow finds that it holds
 * the transfer no more: its signal aborts, and `hold` refuses every change that it would still make.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Database } from '../../../kernel/database/database.ts'
import type { TransferOptions } from '../../isolation/driver.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import type { TransferRow } from '../model/tables.ts'
import type { Phase } from '../model/transfer.ts'
import { Meter } from './progress.ts'

export const LEASE_MS = 15_000
/** By which it says how far it is, too. */
const RENEWALS_PER_LEASE = 15
const NOT_RENEWED = 'the lease of a transfer could not be renewed'

/** The transfer is another's now, or was cancelled. What this attempt has made is nobody's. */
export class AttemptLost extends Error {
  override readonly name = 'AttemptLost'
}

export class Attempt {
  readonly transfer: TransferRow
  readonly meter = new Meter()
  /** Of the places that it has begun. */
  readonly epochs: number[] = []
  readonly #database: Database
  readonly #log: Logger
  readonly #worker: string
  readonly #leaseMs: number
  readonly #lost = new AbortController()
  readonly #renewing: NodeJS.Timeout
  readonly signal: AbortSignal
  #phase: Phase = 'waiting'
  #isRenewing = false

  /** Undefined when it has ended, or somebody else is at work on it. @param signal ends the attempt, not the transfer. */
  static async claim(
    { database, log }: { database: Database; log: Logger },
    id: string,
    { leaseMs = LEASE_MS, signal }: { leaseMs?: number | undefined; signal: AbortSignal },
  ): Promise<Attempt | undefined> {
    const worker = randomUUID()
    const transfer = await database
      .query<TenantTables>()
      .updateTable('transfers')
      .set(({ eb }) => ({
        state: 'running',
        phase: 'waiting',
        progress: null,
        attempts: eb('attempts', '+', 1),
        worker,
        leaseUntil: leaseFor(leaseMs),
        startedAt: sql<Date>`now()`,
      }))
      .where('id', '=', id)
      .where(({ eb, and, or }) =>
        or([eb('state', '=', 'pending'), and([eb('state', '=', 'running'), eb('leaseUntil', '<', sql<Date>`now()`)])]),
      )
      .returningAll()
      .executeTakeFirst()
    return transfer && new Attempt({ database, log }, transfer, worker, leaseMs, signal)
  }

  private constructor(
    { database, log }: { database: Database; log: Logger },
    transfer: TransferRow,
    worker: string,
    leaseMs: number,
    signal: AbortSignal,
  ) {
    this.#database = database
    this.#log = log
    this.transfer = transfer
    this.#worker = worker
    this.#leaseMs = leaseMs
    this.signal = AbortSignal.any([signal, this.#lost.signal])
    this.#renewing = setInterval(() => this.#renewUnlessUnavailable(), leaseMs / RENEWALS_PER_LEASE)
  }

  /** Says what it is doing now. Throws when it is no longer its to do. */
  async phase(phase: Phase): Promise<void> {
    this.#phase = phase
    await this.#renew()
    this.signal.throwIfAborted()
  }

  /** What the driver is given. */
  get options(): TransferOptions {
    return {
      signal: this.signal,
      onPhase: (phase) => {
        this.phase(phase).catch((error) => {
          if (!this.signal.aborted) this.#log.warn({ err: error, transfer: this.transfer.id }, NOT_RENEWED)
        })
      },
    }
  }

  /** In a transaction: until it ends, nobody takes this transfer over, ends it or cancels it. */
  async hold(): Promise<void> {
    const held = await this.#database
      .query<TenantTables>()
      .selectFrom('transfers')
      .select('enteredMaintenance')
      .where('id', '=', this.transfer.id)
      .where('worker', '=', this.#worker)
      .where('state', '=', 'running')
      .forUpdate()
      .executeTakeFirst()
    if (!held) throw this.#lose()
    this.transfer.enteredMaintenance = held.enteredMaintenance // an operator may have taken it over
  }

  /** In a transaction that has called `hold`. */
  async end(state: 'completed' | 'failed', failure: TransferRow['failure'] = null): Promise<void> {
    await this.#database
      .query<TenantTables>()
      .updateTable('transfers')
      .set({
        state,
        failure,
        progress: this.meter.progress,
        phase: state === 'completed' ? 'done' : this.#phase,
        finishedAt: sql<Date>`now()`,
        worker: null,
      })
      .where('id', '=', this.transfer.id)
      .execute()
  }

  /** Lets the next attempt begin at once. Nothing, when it is no longer this one's to give. */
  async release(): Promise<void> {
    await this.#database
      .query<TenantTables>()
      .updateTable('transfers')
      .set({ state: 'pending', worker: null })
      .where('id', '=', this.transfer.id)
      .where('worker', '=', this.#worker)
      .where('state', '=', 'running')
      .execute()
  }

  /** No more renewals. */
  close(): void {
    clearInterval(this.#renewing)
  }

  async #renew(): Promise<void> {
    const renewed = await this.#database
      .query<TenantTables>()
      .updateTable('transfers')
      .set({
        leaseUntil: leaseFor(this.#leaseMs),
        phase: this.#phase,
        progress: this.meter.progress,
      })
      .where('id', '=', this.transfer.id)
      .where('worker', '=', this.#worker)
      .where('state', '=', 'running')
      .returning('id')
      .executeTakeFirst()
    if (!renewed) this.#lose()
  }

  /** A backoffice that is away takes nothing from anybody: `hold` decides when it is back. */
  #renewUnlessUnavailable(): void {
    if (this.#isRenewing) return // it waits for `hold`, and one of them is enough
    this.#isRenewing = true
    this.#renew()
      .catch((error) => {
        this.#log.warn({ err: error, transfer: this.transfer.id }, NOT_RENEWED)
      })
      .finally(() => {
        this.#isRenewing = false
      })
  }

  #lose(): AttemptLost {
    const lost = new AttemptLost(`the transfer ${this.transfer.id} is no longer this attempt's`)
    this.#lost.abort(lost)
    return lost
  }
}

const leaseFor = (ms: number) => sql<Date>`now() + ${ms} * interval '1 millisecond'`
