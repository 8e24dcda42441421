/** One request and its result. */
import type { Failure } from './failure.ts'

export interface Exchange {
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** For the whole exchange: name look-up, connection, TLS, the response with its body. */
  readonly timeoutMs: number
  /** A longer body is cut. */
  readonly maxResponseBytes: number
  /** Ends the exchange early, for example when the process stops. */
  readonly signal?: AbortSignal
}

export interface Exchanged {
  /** null: no response has begun, see `error`. With an `error`, status, headers and body are those of an interrupted response. */
  readonly status: number | null
  /** At most 16 KiB in all; names in lower case, repeated ones joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Read as UTF-8. Invalid bytes and NUL, which PostgreSQL cannot store, are replaced by U+FFFD. */
  readonly body: string
  /** The body is incomplete. */
  readonly isCut: boolean
  /** Constant words without names (failure.ts); null for a complete response. */
  readonly error: string | null
  /** The failure is probably not the receiver's: Tenantry's name server, its network, an abort. */
  readonly isOurs: boolean
  /** Of the connection of this exchange, also if the address refused it; null if none was reached. */
  readonly address: string | null
  readonly durationMs: number
}

export const NO_RESPONSE = { status: null, headers: {}, body: '', isCut: false }

/** The result of an exchange that was not started. */
export const notStarted = (failure: Failure): Exchanged => ({
  ...NO_RESPONSE,
  ...failure,
  address: null,
  durationMs: 0,
})
