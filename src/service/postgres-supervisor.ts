/**
 * Restarts the embedded PostgreSQL on its port after its end, so that its URL remains valid.
 *
 *   running ──end──► waiting ──► starting ──► running for a minute: the count of restarts begins again
 *                       ▲           │
 *                       └──failed───┘  the end, or the failed start, after MAX_RESTARTS restarts: `failed` rejects
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DependencyUnavailable } from '../kernel/base/errors.ts'
import type { Logger } from '../kernel/base/logger.ts'
import { type EmbeddedPostgres, type EmbeddedPostgresOptions, startEmbeddedPostgres } from './embedded-postgres.ts'

const POLL_MS = 500
const MAX_RESTARTS = 5
/** Doubled before each further restart. */
const FIRST_DELAY_MS = 250
const STABLE_AFTER_MS = 60_000

export class PostgresSupervisor {
  readonly #options: EmbeddedPostgresOptions
  readonly #log: Logger
  readonly #stopping = new AbortController()
  readonly #end: Promise<void>
  readonly #failure = Promise.withResolvers<never>()
  #server: EmbeddedPostgres

  constructor(server: EmbeddedPostgres, options: EmbeddedPostgresOptions, log: Logger) {
    this.#server = server
    this.#options = { ...options, port: server.port }
    this.#log = log
    this.failed.catch(() => undefined) // a command does not wait for it: its statements fail
    this.#end = this.#run().catch((error) => {
      if (!this.#stopping.signal.aborted) this.#failure.reject(error)
    })
  }

  /** Rejects with E_DEPENDENCY_UNAVAILABLE after the last restart. Never resolves. */
  get failed(): Promise<never> {
    return this.#failure.promise
  }

  /** Stops the server, after a start in progress. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#end
    await this.#server.stop()
  }

  async #run(): Promise<never> {
    let cause: unknown
    for (let restarts = 0; ; restarts += 1) {
      const startedAt = performance.now()
      while (this.#server.isRunning()) await this.#pause(POLL_MS)
      if (performance.now() - startedAt >= STABLE_AFTER_MS) restarts = 0
      if (restarts === MAX_RESTARTS) throw cannotRestart(cause)
      this.#log.error({ restart: restarts + 1 }, 'the embedded PostgreSQL has ended and is started again')
      await this.#pause(FIRST_DELAY_MS * 2 ** restarts)
      try {
        this.#server = await startEmbeddedPostgres(this.#options)
        cause = undefined
        this.#log.info('the embedded PostgreSQL was started again')
      } catch (error) {
        cause = error
        this.#log.error({ err: error }, 'the embedded PostgreSQL could not be started')
      }
    }
  }

  /** Throws when `stop` was called. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#stopping.signal })
  }
}

const cannotRestart = (cause: unknown) =>
  DependencyUnavailable(
    `The embedded PostgreSQL ended after ${MAX_RESTARTS} restarts. ` +
      (cause instanceof Error ? cause.message : 'Its log is postgres.log in the data directory.'),
    { cause },
  )
