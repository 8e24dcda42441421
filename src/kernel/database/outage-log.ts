/**
 * Logs an outage of the backoffice database with one line at its start and one at its end. During it, lines about further errors of
 * its connections have the level debug. Errors of other dependencies keep their level.
 *
 * An error before the first connection is no outage: it rejects the start.
 *
 *   available ──connection lost, or statement failed──► unavailable ──probe succeeds──► available
 */
import { type Logger, withoutKnownErrors } from '../base/logger.ts'
import { isConnectionLost, isDatabaseUnavailable } from './availability.ts'

const PROBE_INTERVAL_MS = 1_000

export interface OutageLogOptions {
  readonly log: Logger
  /** Rejects while the database is unavailable. */
  readonly probe: () => Promise<unknown>
}

export class OutageLog {
  /** For all lines of users of the database. */
  readonly log: Logger
  readonly #options: OutageLogOptions
  /** Property of marked errors. The job queue reports copies of errors, which keep it. */
  readonly #mark = Symbol('error of the backoffice database')
  #hasConnected = false
  #startedAt: number | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: OutageLogOptions) {
    this.#options = options
    this.log = withoutKnownErrors(options.log, (error) => this.#startedAt !== undefined && this.#isOutage(error))
  }

  /** Call it with each new connection. */
  connected(): void {
    this.#hasConnected = true
  }

  /** Marks an error of a connection of the backoffice, which alone does not start an outage. */
  mark(error: unknown): void {
    if (isDatabaseUnavailable(error)) Object.assign(error as Error, { [this.#mark]: true })
  }

  /** Call it with each error of a connection or a statement. Other errors have no effect. */
  note(error: unknown): void {
    this.mark(error)
    if (!this.#hasConnected || this.#startedAt !== undefined || this.#isClosed || !isConnectionLost(error)) return
    this.#startedAt = performance.now()
    this.#options.log.warn({ err: error }, 'the connection to the backoffice database was lost; connecting again')
    this.#probeLater()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #probeLater(): void {
    this.#timer = setTimeout(() => void this.#probe(), PROBE_INTERVAL_MS).unref()
  }

  async #probe(): Promise<void> {
    try {
      await this.#options.probe()
    } catch {
      if (!this.#isClosed) this.#probeLater()
      return
    }
    const seconds = Math.round((performance.now() - (this.#startedAt ?? 0)) / 100) / 10
    this.#startedAt = undefined
    this.#options.log.info({ seconds }, 'the backoffice database can be reached again')
  }

  /** Also an error that was caused by one. */
  #isOutage(error: unknown): boolean {
    if (!(error instanceof Error)) return false
    return this.#mark in error || this.#isOutage(error.cause)
  }
}
