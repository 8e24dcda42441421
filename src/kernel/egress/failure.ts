/**
 * Classifies why an exchange has no response, in constant words without names, and whether the failure is Tenantry's and not the
 * receiver's. An unknown failure is the receiver's, except a failed name look-up.
 */

export interface Failure {
  readonly error: string
  readonly isOurs: boolean
  /** The address that refused the connection. */
  readonly address?: string | undefined
}

/** The progress of a connection. */
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
/** No server, or a server that does not speak HTTP, has the proxy's address. */
export const PROXY_UNREACHABLE = ours('proxy unreachable')
/** The proxy denies the credentials or the destination. */
export const PROXY_REFUSED = ours('proxy refused')

const TLS = theirs('tls')
const UNREACHABLE = ours('network unreachable')
const NO_RESOURCES = ours('no resources')
/** The request is invalid. */
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

/** Carries a failure through code that passes errors. */
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
  const { code = '', name, message, address } = error as NodeJS.ErrnoException & { address?: string }
  if (name === 'HTTPParserError') return PROTOCOL // of undici, which is loaded with the first connection
  if (code === 'UND_ERR_SOCKET' && message.startsWith('bad ')) return PROTOCOL // a response or an upgrade without a request
  const known = OF_CODE[code]
  if (known) return { ...known, address }
  if (stage === 'securing' || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return TLS
  return code ? theirs('failed') : ours('failed')
}

/** A failure of one address is more specific than a missing route to the others. */
const ofSeveral = (failures: readonly Failure[]): Failure =>
  failures.find(({ isOurs }) => !isOurs) ?? failures[0] ?? ours('failed')

/** The failure of an exchange that its deadline or its caller ended. */
export function failureOfWaiting(stage: Stage): Failure {
  if (stage === 'looking up') return NAME_LOOK_UP_FAILED
  return stage === 'reaching the proxy' ? PROXY_UNREACHABLE : TIMEOUT
}
