/**
 * Runs one request and receives its response.
 *
 *   running ──response ends──────────────► answered, the connection is kept
 *      ├──response too long──────────────► answered and cut, the connection is closed
 *      └──error, deadline, abort─────────► failed, with the received part of the response; the connection is closed
 */
import { StringDecoder } from 'node:string_decoder'
import type { Dispatcher } from 'undici'
import type { EgressConnection } from './connection.ts'
import { type Exchange, type Exchanged, NO_RESPONSE } from './exchange.ts'
import { ABORTED, type Failure, failureOf, failureOfWaiting } from './failure.ts'

/** Receives the connection after an exchange. */
export interface Owner {
  over(running: RunningExchange, connection: EgressConnection, canBeKept: boolean): void
}

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

  onRequestStart(): void {} // required by undici

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[]>): void {
    this.#status = status // also of an informational response, which the final one replaces
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
    if (this.#isFinished) return // the closed connection reports an error
    this.#isFinished = true
    clearTimeout(this.#deadline)
    this.#owner.over(this, this.#connection, canBeKept)
    this.#settled({ ...exchanged, address, durationMs: Math.round(performance.now() - this.#startedAt) })
  }
}

const passed = (running: RunningExchange) => running.passDeadline()

/** Changes the headers in place: undici makes them for each response. */
function joined(headers: Record<string, string | string[]>): Record<string, string> {
  for (const name in headers) {
    const value = headers[name]
    if (Array.isArray(value)) headers[name] = value.join(', ')
  }
  return headers as Record<string, string>
}

/** Omits an incomplete character at the end of a body that is cut. */
function text(chunks: readonly Buffer[] | undefined, isCut: boolean): string {
  if (!chunks) return ''
  const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  const read = isCut ? new StringDecoder('utf8').write(bytes) : bytes.toString()
  return read.includes('\0') ? read.replaceAll('\0', '\u{fffd}') : read
}
