/**
 * Sends requests to addresses that tenants have named. Only public addresses over https are called, without redirects and without the
 * environment's proxy. Each failure is a result (`Exchanged`), not a rejection. The URL is checked before it is stored (`check`) and
 * before each call, and each address when it is connected. Connections are shared by all callers of an origin.
 */

import type { LookupFunction } from 'node:net'
import { LRUCache } from 'lru-cache'
import { defineError } from '../base/errors.ts'
import type { EgressConnection, Ways } from './connection.ts'
import { byDns, bySystem, Names } from './dns.ts'
import { type Exchange, type Exchanged, notStarted } from './exchange.ts'
import { ABORTED, ADDRESS_NOT_ALLOWED, type Failure, NOT_SENT, URL_NOT_ALLOWED } from './failure.ts'
import { IdleConnections } from './idle-connections.ts'
import { proxyOf } from './proxy-url.ts'
import { type Owner, RunningExchange } from './running-exchange.ts'
import { type EgressSettings, isAllowedAddress, judgedUrl, type Target, targetOf } from './url.ts'

export type { Exchange, Exchanged } from './exchange.ts'
export type { EgressSettings } from './url.ts'

export const UrlNotAllowed = defineError('E_URL_NOT_ALLOWED', 422, 'The URL is not allowed')

export interface EgressNetwork {
  /** In place of DNS. Its addresses are checked, too. */
  readonly lookup?: LookupFunction
  /** In place of the system's name servers; `192.0.2.53` or with a port. Unused if private networks are allowed. */
  readonly nameServers?: readonly string[]
  /** Trusted authorities in place of those of Node.js. */
  readonly authorities?: string | Buffer
  /** Time for one address of a name before the next address is tried; default 1 s, through a proxy 2 s. */
  readonly attemptMs?: number
}

/** The size of the caches of TLS sessions and checked URLs. */
const MAX_REMEMBERED = 1_000

export class Egress {
  readonly #settings: EgressSettings
  readonly #ways: Ways
  readonly #connections = new Set<EgressConnection>()
  readonly #idle = new IdleConnections()
  readonly #running = new Set<RunningExchange>()
  readonly #signals = new WeakSet<AbortSignal>()
  /** Exact URLs of receivers of this process. */
  readonly #own = new Set<string>()
  readonly #targets = new LRUCache<string, Target>({ max: MAX_REMEMBERED })
  readonly #owner: Owner = { over: (running, connection, canBeKept) => this.#over(running, connection, canBeKept) }
  /** Loaded by the first exchange: undici takes 5 MiB of memory. */
  #Connection: typeof EgressConnection | undefined
  #isClosed = false

  /** Throws if the URL of the proxy is invalid. */
  constructor(settings: EgressSettings = {}, { lookup, nameServers, authorities, attemptMs }: EgressNetwork = {}) {
    const proxy = settings.proxy === undefined ? undefined : proxyOf(settings.proxy)
    if (proxy && 'reason' in proxy) throw new Error(`egress.proxy: ${proxy.reason}`)
    this.#settings = settings
    this.#ways = {
      names: new Names(lookup || settings.allowPrivateNetworks ? bySystem(lookup) : byDns(nameServers)),
      isAllowed: (address) => isAllowedAddress(address, settings),
      sessions: new LRUCache({ max: MAX_REMEMBERED }),
      authorities,
      attemptMs,
      proxy,
    }
  }

  /**
   * Allows exactly these URLs, each with an address as its host: receivers of this process, outside production. No other URL of their
   * origin is allowed, and no other address is connected.
   */
  allowOwnReceivers(urls: readonly string[]): void {
    for (const url of urls) this.#own.add(url)
  }

  /** Checks a URL without a look-up. Returns the URL of the later request; throws `UrlNotAllowed` with the reason. */
  check(url: string): URL {
    if (this.#own.has(url)) return new URL(url)
    const judged = judgedUrl(url, this.#settings)
    if ('reason' in judged) throw UrlNotAllowed(`The URL is not allowed: ${judged.reason}`)
    return judged.url
  }

  /** Does not reject for failures of the receiver or the network, nor for a URL that is not allowed. */
  async send(exchange: Exchange): Promise<Exchanged> {
    const target = this.#targetOf(exchange.url)
    if ('error' in target) return notStarted(target)
    if (namesHost(exchange.headers)) return notStarted(NOT_SENT)
    this.#Connection ??= (await import('./connection.ts')).EgressConnection
    const Connection = this.#Connection
    if (this.#isClosed || exchange.signal?.aborted) return notStarted(ABORTED)
    if (exchange.signal) this.#heed(exchange.signal)
    return new Promise((settled) => {
      const connection = this.#idle.take(target.origin) ?? this.#open(Connection, target, exchange.url)
      const running = new RunningExchange(exchange, connection, this.#owner, settled)
      this.#running.add(running)
      running.start(target.path)
    })
  }

  /** The number of running exchanges. */
  get underWay(): number {
    return this.#running.size
  }

  /** The number of connections, including idle and closing ones. */
  get connections(): number {
    return this.#connections.size
  }

  /** Aborts running exchanges. Resolves when every connection is closed. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#ways.names.close()
    for (const running of this.#running) running.abort()
    await Promise.all([...this.#connections].map((connection) => connection.end()))
  }

  #targetOf(url: string): Target | Failure {
    const known = this.#targets.get(url)
    if (known) return known
    if (this.#own.has(url)) return targetOf(new URL(url))
    const judged = judgedUrl(url, this.#settings)
    if ('reason' in judged) return judged.isForAddress ? ADDRESS_NOT_ALLOWED : URL_NOT_ALLOWED
    const target = targetOf(judged.url)
    this.#targets.set(url, target)
    return target
  }

  #open(Connection: typeof EgressConnection, target: Target, url: string): EgressConnection {
    const isAllowed = (address: string) => address === target.host
    const ways = this.#own.has(url) ? { ...this.#ways, isAllowed, proxy: undefined } : this.#ways
    const connection = new Connection(target, ways, (lost) => {
      if (this.#idle.remove(lost)) this.#end(lost)
    })
    this.#connections.add(connection)
    return connection
  }

  #over(running: RunningExchange, connection: EgressConnection, canBeKept: boolean): void {
    this.#running.delete(running)
    const surplus = canBeKept ? this.#idle.add(connection) : connection
    if (surplus) this.#end(surplus)
  }

  #end(connection: EgressConnection): void {
    void connection.end().then(() => this.#connections.delete(connection))
  }

  /** One listener for all exchanges of a signal. */
  #heed(signal: AbortSignal): void {
    if (this.#signals.has(signal)) return
    this.#signals.add(signal)
    const abort = () => {
      for (const running of this.#running) if (running.signal === signal) running.abort()
    }
    signal.addEventListener('abort', abort, { once: true })
  }
}

/** A header must not name another host than the checked one. */
function namesHost(headers: Readonly<Record<string, string>>): boolean {
  for (const name in headers) if (name.length === 4 && name.toLowerCase() === 'host') return true
  return false
}
