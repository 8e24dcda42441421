/**
 * A few sessions for work that comes in any amount: whatever waits is done by the next one that is free. Work that finds all of
 * them busy waits, and what it waits with may be joined by more, which is what makes batches.
 *
 * A session is opened when there is work and none is idle, and closed when it was idle for a while, when its connection broke,
 * or when a statement was not answered in time: a server that has gone silent says no more on it. By then the server has given up
 * the statement too; else it would go on waiting for a lock, and do later what has failed for whoever asked.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { type Database, isDatabaseUnavailable, type Prepared, type SqlResult } from '../../kernel/database/database.ts'

const IDLE_MS = 10_000

export type SessionClient = Parameters<Parameters<Database['session']>[0]>[0]

interface Work {
  run(client: SessionClient): Promise<void>
  /** Of what could not be begun. */
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

  /** @param database is closed with this. @param timeoutMs of each statement */
  constructor(database: Database, count: number, timeoutMs: number) {
    this.#database = database
    this.#count = count
    this.#timeoutMs = timeoutMs
  }

  /** `run` fails of itself whom it concerns. What it throws ends its session if it says that the server is away, else nothing. */
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
    for (const work of this.#waiting.splice(0)) work.fail(DependencyUnavailable('the store is closed'))
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
      // What cannot be begun here may still be begun by another session that is open.
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
