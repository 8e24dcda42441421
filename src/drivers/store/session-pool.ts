/**
 * A small pool of PostgreSQL sessions, which take queued work one item after the other. Work that finds all sessions
 * busy waits; its caller may add to it while it waits, which forms batches.
 *
 * A session is opened when work waits and none is idle. It is closed after an idle time, when its connection breaks, or
 * when a statement times out, because an unresponsive server sends nothing more on it. The server has cancelled the
 * statement by then: otherwise it would wait for a lock and later execute a statement that has failed for its caller.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { type Database, isDatabaseUnavailable, type Prepared, type SqlResult } from '../../kernel/database/database.ts'

const IDLE_MS = 10_000

export type SessionClient = Parameters<Parameters<Database['session']>[0]>[0]

interface Work {
  run(client: SessionClient): Promise<void>
  /** Called if the work could not be started. */
  fail(error: unknown): void
}

export class SessionPool {
  readonly #database: Database
  readonly #count: number
  readonly #timeoutMs: number
  readonly #waiting: Work[] = []
  readonly #idle = new Set<() => void>()
  #open = 0
  #closed = false

  /** @param database is closed with this pool @param timeoutMs of each statement */
  constructor(database: Database, count: number, timeoutMs: number) {
    this.#database = database
    this.#count = count
    this.#timeoutMs = timeoutMs
  }

  /**
   * `run` reports errors to its callers itself. An error that it throws ends the session if the server is unavailable.
   */
  add(work: Work): void {
    this.#waiting.push(work)
    const [wake] = this.#idle
    if (wake) wake()
    else if (this.#open < this.#count) void this.#openOne()
  }

  query(client: SessionClient, statement: string | Prepared, values: readonly unknown[] = []): Promise<SqlResult> {
    const query = typeof statement === 'string' ? { text: statement } : statement
    const inTime = { ...query, values: values as unknown[], query_timeout: this.#timeoutMs }
    return client.query(inTime)
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const wake of this.#idle) wake()
    for (const work of this.#waiting.splice(0)) work.fail(DependencyUnavailable('The store is closed'))
    await this.#database.close()
  }

  async #openOne(): Promise<void> {
    this.#open += 1
    try {
      await this.#database.session(async (client) => {
        await this.query(client, `set statement_timeout = ${Math.ceil(this.#timeoutMs)}`)
        await this.#workWith(client)
      })
    } catch (error) {
      // Another open session may still run this work.
      if (this.#open === 1) for (const work of this.#waiting.splice(0)) work.fail(error)
    } finally {
      this.#open -= 1
      if (this.#waiting.length > 0 && this.#open === 0) void this.#openOne()
    }
  }

  async #workWith(client: SessionClient): Promise<void> {
    let isBroken = false
    let wake = () => {}
    const broken = () => {
      isBroken = true
      wake()
    }
    client.once('error', broken)
    client.once('end', broken)
    while (!this.#closed && !isBroken) {
      const work = this.#waiting.shift()
      if (work) {
        try {
          await work.run(client)
        } catch (error) {
          if (isDatabaseUnavailable(error)) return
        }
        continue
      }
      const isWoken = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), IDLE_MS).unref()
        wake = () => {
          this.#idle.delete(wake)
          clearTimeout(timer)
          resolve(true)
        }
        this.#idle.add(wake)
      })
      this.#idle.delete(wake)
      if (!isWoken) return
    }
  }
}
