/**
 * Logs an outage of the backoffice database with one line at its start and one at its end. During it, lines about its errors have the
 * level debug. Errors of other dependencies keep their level. There are two kinds, which are independent of each other:
 *
 *   connection   a connection was lost          ──► a probe connects
 *   storage      read-only, or its disk is full ──► a probe writes, and nothing failed since the previous probe
 *
 * An error before the first connection is no outage: it rejects the start.
 */
import { type Logger, withoutKnownErrors } from '../base/logger.ts'
import { isConnectionLost } from './availability.ts'
import { isStorageOutage, isWriteOutage, WRITE_PROBE, writeFailure } from './write-failures.ts'

const PROBE_INTERVAL_MS = 1_000

type Kind = 'connection' | 'storage'

export interface OutageLogOptions {
  readonly log: Logger
  /** Runs a statement on a connection of the database, with a timeout. */
  readonly probe: (statement: string) => Promise<unknown>
}

export class OutageLog {
  /** For all lines of users of the database. */
  readonly log: Logger
  readonly #outages: Readonly<Record<Kind, Outage>>
  /** Property of marked errors, with their kind. The job queue reports copies of errors, which keep it. */
  readonly #mark = Symbol('error of the backoffice database')
  #hasConnected = false

  constructor({ log, probe }: OutageLogOptions) {
    this.#outages = {
      connection: new Outage(() => probe('select 1'), {
        started: (error) =>
          log.warn({ err: error }, 'the connection to the backoffice database was lost; connecting again'),
        ended: (seconds) => log.info({ seconds }, 'the backoffice database can be reached again'),
      }),
      storage: new Outage(() => probe(WRITE_PROBE), {
        started: (error) => log.warn({ reason: writeFailure(error) }, 'the backoffice database cannot store data'),
        ended: (seconds) => log.info({ seconds }, 'the backoffice database can store data again'),
      }),
    }
    this.log = withoutKnownErrors(log, (error) => this.#isOfOutage(error))
  }

  /** Call it with each new connection. */
  connected(): void {
    this.#hasConnected = true
  }

  /** Marks an error of the backoffice, which alone does not start an outage. */
  mark(error: unknown, kind = kindOf(error)): void {
    if (kind) Object.assign(error as Error, { [this.#mark]: kind })
  }

  /** Call it with each error of a connection or a statement. Other errors have no effect. */
  note(error: unknown): void {
    this.mark(error)
    if (!this.#hasConnected) return
    if (isConnectionLost(error)) this.#outages.connection.note(error)
    if (isStorageOutage(error)) this.#outages.storage.note(error)
  }

  close(): void {
    for (const outage of Object.values(this.#outages)) outage.close()
  }

  /** Also an error that was caused by one. */
  #isOfOutage(error: unknown): boolean {
    if (!(error instanceof Error)) return false
    const kind: Kind | undefined = Reflect.get(error, this.#mark)
    return kind === undefined ? this.#isOfOutage(error.cause) : this.#outages[kind].isActive
  }
}

function kindOf(error: unknown): Kind | undefined {
  if (!isWriteOutage(error)) return undefined
  return writeFailure(error) === undefined ? 'connection' : 'storage'
}

interface OutageLines {
  readonly started: (error: unknown) => void
  readonly ended: (seconds: number) => void
}

class Outage {
  readonly #probe: () => Promise<unknown>
  readonly #lines: OutageLines
  #startedAt: number | undefined
  /** Whether an error was noted since the previous probe: a probe can succeed while other statements fail. */
  #hasFailed = false
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(probe: () => Promise<unknown>, lines: OutageLines) {
    this.#probe = probe
    this.#lines = lines
  }

  get isActive(): boolean {
    return this.#startedAt !== undefined
  }

  note(error: unknown): void {
    if (this.isActive) this.#hasFailed = true
    if (this.isActive || this.#isClosed) return
    this.#startedAt = performance.now()
    this.#lines.started(error)
    this.#probeLater()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #probeLater(): void {
    this.#timer = setTimeout(() => void this.#endIfPassed(), PROBE_INTERVAL_MS).unref()
  }

  async #endIfPassed(): Promise<void> {
    const hasFailed = this.#hasFailed
    this.#hasFailed = false
    const passes = await this.#probe().then(
      () => !hasFailed,
      () => false,
    )
    if (this.#isClosed) return
    if (!passes) return this.#probeLater()
    this.#lines.ended(Math.round((performance.now() - (this.#startedAt ?? 0)) / 100) / 10)
    this.#startedAt = undefined
  }
}
