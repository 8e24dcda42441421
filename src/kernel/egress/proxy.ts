/**
 * Opens a connection to an address through a proxy, by HTTP CONNECT.
 *
 *   reaching the proxy ──CONNECT address:port──► connecting ──2xx──► open
 *          └──► ours: proxy unreachable             ├──502, 503, 504, timeout──► the next address, on a new connection
 *                                                   └──other response──────────► ours: proxy refused
 *
 * The proxy receives checked addresses, never names. The next connection is made after the former has closed.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type Failure, FailureError, HOST_UNREACHABLE, PROTOCOL, PROXY_REFUSED, PROXY_UNREACHABLE } from './failure.ts'
import type { EgressProxy } from './proxy-url.ts'

export interface TunnelOptions {
  readonly proxy: EgressProxy
  /** Trusted authorities for a proxy with TLS. */
  readonly authorities?: string | Buffer | undefined
  /** Checked, in the order of the attempts. */
  readonly addresses: readonly string[]
  readonly port: number
  /** Time for one address before the next address is tried, if there is one; default 2 s. */
  readonly attemptMs?: number | undefined
  /** Called when a connection to the proxy starts and when CONNECT is sent. */
  readonly at: (stage: 'reaching the proxy' | 'connecting') => void
  /** Called once, unless `end` was called before. */
  readonly done: (error: FailureError | null, socket?: Socket, address?: string) => void
}

const MAX_HEADER_BYTES = 16_384
const ATTEMPT_MS = 2_000

const BEGINNING = 'HTTP/1.'
const STATUS = /^HTTP\/1\.[01] ([1-9]\d\d)[ \r]/
const NOT_REACHED = new Set([502, 503, 504])

export class Tunnel {
  readonly #options: TunnelOptions
  #socket: Socket
  #first: Failure | undefined
  #isFinished = false

  constructor(options: TunnelOptions) {
    this.#options = options
    this.#socket = this.#try(0)
  }

  /** Stops opening. @returns the socket to be closed. */
  end(): Socket {
    this.#isFinished = true
    return this.#socket
  }

  #try(index: number): Socket {
    const { proxy, authorities, addresses, port, attemptMs = ATTEMPT_MS, at } = this.#options
    const address = addresses[index] ?? ''
    const isLast = index + 1 >= addresses.length
    at('reaching the proxy')
    const socket = dialled(proxy, authorities)
    let failure: Failure = PROXY_UNREACHABLE
    let timer: NodeJS.Timeout | undefined
    const fail = (reason: Failure) => {
      failure = reason
      socket.destroy()
    }
    onResponse(socket, (status, isMore) => {
      clearTimeout(timer)
      if (status === undefined) fail(PROXY_UNREACHABLE)
      else if (NOT_REACHED.has(status)) fail({ ...HOST_UNREACHABLE, address })
      else if (status < 200 || status > 299) fail(PROXY_REFUSED)
      else if (isMore) fail({ ...PROTOCOL, address })
      else this.#done(null, socket, address)
    })
    const closed = () => {
      clearTimeout(timer)
      if (this.#isFinished) return
      const isUnreachable = failure.error === HOST_UNREACHABLE.error
      if (isUnreachable) this.#first ??= failure
      if (isUnreachable && !isLast) this.#socket = this.#try(index + 1)
      else this.#done(new FailureError((isUnreachable && this.#first) || failure))
    }
    return socket
      .setNoDelay(true)
      .on('error', () => undefined) // its close reports it
      .once('close', closed)
      .once(proxy.isSecure ? 'secureConnect' : 'connect', () => {
        at('connecting')
        if (!isLast) timer = setTimeout(fail, attemptMs, { ...HOST_UNREACHABLE, address })
        socket.write(request(address, port, proxy))
      })
  }

  #done(error: FailureError | null, socket?: Socket, address?: string): void {
    if (this.#isFinished) return
    this.#isFinished = true
    this.#options.done(error, socket, address)
  }
}

/** The operator configures the proxy: the system looks its host up, and its address is not checked. */
function dialled({ isSecure, host, port }: EgressProxy, authorities: TunnelOptions['authorities']): Socket {
  if (!isSecure) return connectTcp({ host, port })
  return connectTls({
    host,
    port,
    servername: isIP(host) === 0 ? host : '',
    ALPNProtocols: ['http/1.1'],
    ...(authorities ? { ca: authorities } : {}),
    rejectUnauthorized: true, // regardless of NODE_TLS_REJECT_UNAUTHORIZED
  })
}

function request(address: string, port: number, { authorization }: EgressProxy): string {
  const authority = `${isIP(address) === 6 ? `[${address}]` : address}:${port}`
  const credentials = authorization ? `Proxy-Authorization: ${authorization}\r\n` : ''
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`
}

/**
 * Passes the status of a complete header, or undefined if it is invalid or too long; and whether further bytes followed: a receiver
 * must not send before it has received a request.
 */
function onResponse(socket: Socket, callback: (status: number | undefined, isMore: boolean) => void): void {
  let head = ''
  const read = () => {
    for (let piece: Buffer | null = socket.read(); piece !== null; piece = socket.read()) {
      const before = head.length
      head += piece.toString('latin1')
      const end = head.indexOf('\r\n\r\n', Math.max(0, before - 3)) + 4
      const isTooLong = (end < 4 ? head.length : end) > MAX_HEADER_BYTES
      if (end < 4 && !isTooLong && BEGINNING.startsWith(head.slice(0, BEGINNING.length))) continue
      socket.off('readable', read)
      const status = end < 4 || isTooLong ? undefined : STATUS.exec(head)?.[1]
      return callback(status === undefined ? undefined : Number(status), head.length > end)
    }
  }
  socket.on('readable', read)
}
