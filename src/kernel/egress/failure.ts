/**
 * Why an exchange has no answer, in words of ours that stay the same and name nobody, and whether the failure is ours: then
 * it says nothing of the receiver. What cannot be told is the receiver's, but for a name that could not be looked up.
 */
import { errors } from 'undici'

export interface Failure {
  readonly error: string
  readonly isOurs: boolean
  /** That refused to be reached. */
  readonly address?: string | undefined
}

/** How far a connection is. */
export type Stage = 'looking up' | 'reaching the proxy' | 'connecting' | 'securing' | 'open'

const theirs = (error: string): Failure => ({ error, isOurs: false })
const ours = (error: string): Failure => ({ error, isOurs: true })

export const TIMEOUT = theirs('timeout')
export const ABORTED = ours('aborted')
export const NAME_NOT_FOUND = theirs('name not found')
export const NAME_LOOK_UP_FAILED = ours('name look-up failed')
export const ADDRESS_NOT_ALLOWED = theirs('address not allowed')
export const URL_NOT_ALLOWED = theirs('url not allowed')
export const CONNECTION_RESET = theirs('connection reset')
export const PROTOCOL = theirs('protocol')
export const HOST_UNREACHABLE = theirs('host unreachable')
/** It, or what should be it, is not there, or does not speak HTTP. */
export const PROXY_UNREACHABLE = ours('proxy unreachable')
/** It does not know us, or does not let us go where we want. */
export const PROXY_REFUSED = ours('proxy refused')

const TLS = theirs('tls')
const UNREACHABLE = ours('network unreachable')
const NO_RESOURCES = ours('no resources')
/** What was to be sent is no request. */
export const NOT_SENT = ours('protocol')

const OF_CODE: Readonly<Record<string, Failure>> = {
  ECONNREFUSED: theirs('connection refused'),
  ECONNRESET: CONNECTION_RESET,
  ECONNABORTED: CONNECTION_RESET,
  EPIPE: CONNECTION_RESET,
  UND_ERR_SOCKET: CONNECTION_RESET,
  ETIMEDOUT: TIMEOUT,
  EHOSTUNREACH: HOST_UNREACHABLE,
  EHOSTDOWN: HOST_UNREACHABLE,
  ENETUNREACH: UNREACHABLE,
  ENETDOWN: UNREACHABLE,
  EADDRNOTAVAIL: UNREACHABLE,
  EACCES: UNREACHABLE,
  EPERM: UNREACHABLE,
  EMFILE: NO_RESOURCES,
  ENFILE: NO_RESOURCES,
  ENOBUFS: NO_RESOURCES,
  ENOMEM: NO_RESOURCES,
  EPROTO: TLS,
  UND_ERR_HEADERS_OVERFLOW: PROTOCOL,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: PROTOCOL,
  UND_ERR_INVALID_ARG: NOT_SENT,
  UND_ERR_NOT_SUPPORTED: NOT_SENT,
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: NOT_SENT,
}

/** A failure that is found here, on its way through code that passes errors on. */
export class FailureError extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.error)
    this.failure = failure
  }
}

/** @param stage of the connection when it failed. */
export function failureOf(error: unknown, stage: Stage): Failure {
  if (error instanceof FailureError) return error.failure
  if (error instanceof AggregateError) return ofSeveral(error.errors.map((each) => failureOf(each, stage)))
  const { code = '', message, address } = error as NodeJS.ErrnoException & { address?: string }
  if (error instanceof errors.HTTPParserError) return PROTOCOL
  if (code === 'UND_ERR_SOCKET' && message.startsWith('bad ')) return PROTOCOL // a response, or an upgrade, that nobody asked for
  const known = OF_CODE[code]
  if (known) return { ...known, address }
  if (stage === 'securing' || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return TLS
  return code ? theirs('failed') : ours('failed')
}

/** Each address was tried: what one of them did says more than that we have no way to the others. */
const ofSeveral = (failures: readonly Failure[]): Failure =>
  failures.find(({ isOurs }) => !isOurs) ?? failures[0] ?? ours('failed')

/** What a deadline ended, or somebody who could wait no longer. */
export function failureOfWaiting(stage: Stage): Failure {
  if (stage === 'looking up') return NAME_LOOK_UP_FAILED
  return stage === 'reaching the proxy' ? PROXY_UNREACHABLE : TIMEOUT
}
