/**
 * One connection to one origin, with one exchange at a time: docs/decisions/egress-connections.md.
 *
 *   looking up ──allowed addresses──► connecting ──address checked again──► securing ──► open
 *
 * Nothing is written before the reached address is checked. `end` closes the connection in any stage. undici connects again if the
 * connection is lost before a request is written; `address` is the latest one. A request is never written twice.
 */
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { LRUCache } from 'lru-cache'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import type { Found, Names } from './dns.ts'
import { ADDRESS_NOT_ALLOWED, CONNECTION_RESET, FailureError, type Stage } from './failure.ts'
import { Tunnel } from './proxy.ts'
import type { EgressProxy } from './proxy-url.ts'
import type { Target } from './url.ts'

/** Shared by the connections of one egress. */
export interface Ways {
  readonly names: Names
  readonly isAllowed: (address: string) => boolean
  /** TLS sessions of the last connection to each origin, for resumption. */
  readonly sessions: LRUCache<string, Buffer>
  /** Trusted authorities in place of those of Node.js. */
  readonly authorities?: string | Buffer | undefined
  /** Time for one address before the next address is tried; default 1 s, through a proxy 2 s. */
  readonly attemptMs?: number | undefined
  readonly proxy?: EgressProxy | undefined
}

const MAX_HEADER_BYTES = 16_384
const ATTEMPT_MS = 1_000
const TCP_KEEP_ALIVE_MS = 60_000

const CLIENT_OPTIONS: Client.Options = {
  allowH2: false,
  useMilo: false,
  pipelining: 1,
  maxHeaderSize: MAX_HEADER_BYTES,
  // An exchange has one deadline for everything.
  headersTimeout: 0,
  bodyTimeout: 0,
  // A request on a connection that the server is closing is lost: the client closes idle connections two seconds before the timeout
  // that the server announces, or after the shortest usual timeout.
  keepAliveTimeout: 4_000,
  keepAliveTimeoutThreshold: 2_000,
  keepAliveMaxTimeout: 60_000,
}

export class EgressConnection {
  readonly origin: string
  readonly #target: Target
  readonly #ways: Ways
  readonly #client: Client
  #stage: Stage = 'connecting'
  #address: string | null = null
  #socket: Socket | undefined
  #tunnel: Tunnel | undefined
  #isEnded = false

  /** @param lost is called when the connection has been closed by either side. */
  constructor(target: Target, ways: Ways, lost: (connection: EgressConnection) => void) {
    this.origin = target.origin
    this.#target = target
    this.#ways = ways
    this.#client = new Client(target.origin, { ...CLIENT_OPTIONS, connect: (_, done) => this.#dial(done) })
    this.#client.on('disconnect', () => lost(this))
  }

  get stage(): Stage {
    return this.#stage
  }

  /** The reached and allowed address; null before. */
  get address(): string | null {
    return this.#address
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler)
  }

  /** Resolves when the connection is closed. Its handler receives an error, unless the response has ended. */
  async end(): Promise<void> {
    this.#isEnded = true
    const socket = this.#tunnel?.end() ?? this.#socket
    await this.#client.destroy() // does not close a socket that is not open yet
    if (!socket || socket.closed) return
    await new Promise<void>((closed) => socket.once('close', () => closed()).destroy())
  }

  #dial(done: buildConnector.Callback): void {
    this.#stage = 'connecting'
    this.#address = null
    if (this.#ways.proxy) this.#dialThrough(this.#ways.proxy, done)
    else this.#dialDirectly(done)
  }

  #dialDirectly(done: buildConnector.Callback): void {
    const { isSecure } = this.#target
    const socket = isSecure ? this.#tls(this.#destination()) : connectTcp(this.#destination())
    socket.prependOnceListener('connect', () => {
      const address = socket.remoteAddress // undefined if it has been reset already
      if (address === undefined) socket.destroy(new FailureError(CONNECTION_RESET))
      else if (!this.#ways.isAllowed(address)) socket.destroy(new FailureError(ADDRESS_NOT_ALLOWED))
      else this.#address = address
      this.#stage = 'securing'
    })
    this.#await(socket, isSecure ? 'secureConnect' : 'connect', done)
  }

  #dialThrough(proxy: EgressProxy, done: buildConnector.Callback): void {
    const { host, port, isSecure } = this.#target
    this.#allowed(host, (error, found) => {
      if (this.#isEnded) return
      if (error) return done(error, null)
      const addresses = found.map(({ address }) => address)
      const at = (stage: Stage) => {
        this.#stage = stage
      }
      const opened = (rejected: FailureError | null, socket?: Socket, address = '') => {
        this.#tunnel = undefined
        if (rejected || !socket) return done(rejected ?? new FailureError(CONNECTION_RESET), null)
        this.#address = address
        this.#stage = 'securing'
        if (isSecure) this.#await(this.#tls({ host, port, socket }), 'secureConnect', done)
        else this.#open(socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS), done)
      }
      const { authorities, attemptMs } = this.#ways
      this.#tunnel = new Tunnel({ proxy, authorities, addresses, port, attemptMs, at, done: opened })
    })
  }

  #await(socket: Socket, event: 'connect' | 'secureConnect', done: buildConnector.Callback): void {
    this.#socket = socket
    let isOpen = false
    socket
      .setNoDelay(true)
      .setKeepAlive(true, TCP_KEEP_ALIVE_MS)
      .on('error', (error) => isOpen || done(error, null))
      .once(event, () => {
        if (socket.destroyed) return
        isOpen = true
        this.#open(socket, done)
      })
  }

  #open(socket: Socket, done: buildConnector.Callback): void {
    this.#socket = socket
    this.#stage = 'open'
    done(null, socket)
  }

  #tls(destination: ConnectionOptions): Socket {
    const { host, origin } = this.#target
    const { sessions, authorities } = this.#ways
    const socket = connectTls({
      ...destination,
      servername: isIP(host) === 0 ? host : '',
      ALPNProtocols: ['http/1.1'],
      session: sessions.get(origin),
      ...(authorities ? { ca: authorities } : {}),
      rejectUnauthorized: true, // regardless of NODE_TLS_REJECT_UNAUTHORIZED
    })
    return socket.on('session', (session: Buffer) => sessions.set(origin, session))
  }

  #destination() {
    const { host, port } = this.#target
    const autoSelectFamilyAttemptTimeout = this.#ways.attemptMs ?? ATTEMPT_MS
    return { host, port, lookup: this.#lookUp, autoSelectFamily: true, autoSelectFamilyAttemptTimeout }
  }

  readonly #lookUp: LookupFunction = (name, _, found) =>
    this.#allowed(name, (error, addresses) => found(error, [...addresses]))

  /** The allowed addresses of a host, which is a name or an address. */
  #allowed(host: string, found: Found): void {
    const judged: Found = (error, addresses) => {
      this.#stage = 'connecting'
      const allowed = addresses.filter(({ address }) => this.#ways.isAllowed(address))
      if (error) found(error, [])
      else if (allowed.length === 0) found(new FailureError(ADDRESS_NOT_ALLOWED), [])
      else found(null, allowed)
    }
    const family = isIP(host)
    if (family !== 0) judged(null, [{ address: host, family }])
    else {
      this.#stage = 'looking up'
      this.#ways.names.lookUp(host, judged)
    }
  }
}
