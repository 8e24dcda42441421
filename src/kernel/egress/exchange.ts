/**
 * One request and its answer, from the moment it is asked for.
 *
 *   running ──the answer ends──────────────► answered, the connection is kept
 *      ├──the answer is too long───────────► answered and cut, the connection is ended
 *      └──an error, the deadline, given up─► failed, with what had come of an answer; the connection is ended
 */
import { StringDecoder } from 'node:string_decoder'
import type { Dispatcher } from 'undici'
import type { EgressConnection } from './connection.ts'
import { ABORTED, type Failure, failureOf, failureOfWaiting } from './failure.ts'

export interface Exchange {
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** For the whole exchange: name look-up, connection, TLS, the answer with its body. */
  readonly timeoutMs: number
  /** The body is read so far and then cut off. */
  readonly maxResponseBytes: number
  /** Given up early, as when the process stops. */
  readonly signal?: AbortSignal
}

export interface Exchanged {
  /** null: no answer has begun, and `error` says why. With an `error`, of one that broke off, as the headers and the body. */
  readonly status: number | null
  /** Of the answer, at most 16 KiB in all; names in lower case, what was repeated is joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Read as UTF-8; what is none, and NUL, which no text of PostgreSQL can hold, is replaced by U+FFFD. */
  readonly body: string
  /** There is more of the body, or would have been. */
  readonly isCut: boolean
  /** In words that stay the same and name nobody; null when there is a whole answer. See failure.ts. */
  readonly error: string | null
  /** The failure is probably ours and says nothing of the receiver: our name server, our network, we gave up. */
  readonly isOurs: boolean
  /** That the connection of this very exchange went to, or was refused by; null when none was reached. */
  readonly address: string | null
  readonly durationMs: number
}

/** Whose the connection is between exchanges. */
export interface Owner {
  over(running: RunningExchange, connection: EgressConnection, canBeKept: boolean): void
}

const NO_RESPONSE = { status: null, headers: {}, body: '', isCut: false }

/** An exchange that was never begun. */
export const notStarted = (failure: Failure): Exchanged => ({
  ...NO_RESPONSE,
  ...failure,
  address: null,
  durationMs: 0,
})

export class RunningExchange implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange
  readonly #connection: EgressConnection
  readonly #owner: Owner
  readonly #settled: (exchanged: Exchanged) => void
  readonly #startedAt = performance.now()
  readonly #deadline: NodeJS.Timeout
  #isFinished = false
  #status = 0
  #headers: Record<string, string> = {}
  #chunks: Buffer[] | undefined
  #bytes = 0

  constructor(exchange: Exchange, connection: EgressConnection, owner: Owner, settled: (exchanged: Exchanged) => void) {
    this.#exchange = exchange
    this.#connection = connection
    this.#owner = owner
    this.#settled = settled
    this.#deadline = setTimeout(passed, exchange.timeoutMs, this)
  }

  get signal(): AbortSignal | undefined {
    return this.#exchange.signal
  }

  start(path: string): void {
    const { method, headers, body } = this.#exchange
    this.#connection.dispatch({ path, method, headers, body }, this)
  }

  abort(): void {
    this.#fail(ABORTED)
  }

  passDeadline(): void {
    this.#fail(failureOfWaiting(this.#connection.stage))
  }

  onRequestStart(): void {} // undici insists on it

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[]>): void {
    this.#status = status // of what is said before the answer too, which then takes its place
    this.#headers = joined(headers)
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = this.#exchange.maxResponseBytes - this.#bytes
    const isTooLong = chunk.length > room
    const wanted = isTooLong ? chunk.subarray(0, room) : chunk
    if (this.#chunks) this.#chunks.push(wanted)
    else this.#chunks = [wanted]
    this.#bytes += wanted.length
    if (isTooLong) this.#complete(true)
  }

  onResponseEnd(): void {
    this.#complete(false)
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(failureOf(error, this.#connection.stage))
  }

  #complete(isCut: boolean): void {
    const status = this.#status
    const body = text(this.#chunks, isCut)
    const exchanged = { status, headers: this.#headers, body, isCut, error: null, isOurs: false }
    this.#settle(exchanged, this.#connection.address, !isCut)
  }

  #fail(failure: Failure): void {
    const started = { status: this.#status, headers: this.#headers, body: text(this.#chunks, true), isCut: true }
    const exchanged = { ...(this.#status >= 200 ? started : NO_RESPONSE), ...failure }
    this.#settle(exchanged, this.#connection.address ?? failure.address ?? null, false)
  }

  #settle(exchanged: Omit<Exchanged, 'address' | 'durationMs'>, address: string | null, canBeKept: boolean): void {
    if (this.#isFinished) return // it is told that its connection was ended
    this.#isFinished = true
    clearTimeout(this.#deadline)
    this.#owner.over(this, this.#connection, canBeKept)
    this.#settled({ ...exchanged, address, durationMs: Math.round(performance.now() - this.#startedAt) })
  }
}

const passed = (running: RunningExchange) => running.passDeadline()

/** In place: the headers were made for us. */
function joined(headers: Record<string, string | string[]>): Record<string, string> {
  for (const name in headers) {
    const value = headers[name]
    if (Array.isArray(value)) headers[name] = value.join(', ')
  }
  return headers as Record<string, string>
}

/** Of a body that is cut, the first bytes of a character whose others are gone are left out. */
function text(chunks: readonly Buffer[] | undefined, isCut: boolean): string {
  if (!chunks) return ''
  const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  const read = isCut ? new StringDecoder('utf8').write(bytes) : bytes.toString()
  return read.includes('\0') ? read.replaceAll('\0', '\u{fffd}') : read
}
