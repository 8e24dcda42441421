/**
 * Connection to Redis or Valkey: one server, or a cluster.
 *
 *   connecting ──ready──► available ──lost, or no response for `timeoutMs`──► unavailable ──ready──► available
 *
 * - Before the first connection, a call waits for it, at most `timeoutMs`. While the server is unavailable, calls fail
 *   immediately.
 * - A command without a response is not sent again: it may have been executed, and a counter must not be increased
 *   twice. A command that the server has rejected unexecuted (unknown script, slot on another node) may be sent again.
 */
import { createRequire } from 'node:module'
import type { ConnectionOptions } from 'node:tls'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import { DependencyUnavailable, InvalidRequest, TenancyError } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import type { Script } from './redis-scripts.ts'

export type RedisClient = Redis | Cluster
type Ioredis = typeof import('ioredis')

const FIRST_DELAY_MS = 50
const LONGEST_DELAY_MS = 1_000
/** In a cluster. The present owner of a slot is known immediately; the next command looks for a lost node. */
const MAX_REDIRECTIONS = 4

export interface RedisAddress {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS. */
  readonly url?: string
  /**
   * URLs of some nodes of a cluster, which lead to the others. The first URL has the credentials and the protocol for
   * all nodes.
   */
  readonly nodes?: readonly string[]
  readonly timeoutMs: number
  readonly tls?: ConnectionOptions
}

const NOT_KEPT_AS_A_NUMBER = /value is not an integer or out of range|would overflow|WRONGTYPE/
const UNABLE =
  /\b(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|NOREPLICAS|BUSY|NOAUTH|WRONGPASS|NOPERM|MOVED|ASK|max number of clients)\b/

export class RedisConnection {
  readonly #client: RedisClient
  readonly #timeoutMs: number
  readonly #Command: Ioredis['Command']
  #connecting: Promise<void> | undefined
  #publisher: Redis | undefined
  #closed = false
  /** Error of the last connection attempt, while there is no connection. Failing commands do not have this cause. */
  #failure: unknown

  constructor(address: RedisAddress, log: Logger) {
    const ioredis = loadIoredis()
    this.#Command = ioredis.Command
    this.#timeoutMs = address.timeoutMs
    this.#client = address.nodes
      ? clusterBy(ioredis, address)
      : new ioredis.Redis(address.url ?? '', optionsOf(address))
    this.#connecting = new Promise((resolve) => {
      this.#client.once('ready', resolve).once('close', resolve)
    })
    this.#logAvailability(log)
  }

  get isCluster(): boolean {
    return this.#client.isCluster
  }

  /** Returns the server, or every master of a cluster. */
  masters(): Promise<readonly Redis[]> {
    return this.run(async (client) => (client.isCluster ? mastersOf(client as Cluster) : [client as Redis]))
  }

  async publish(channel: string, message: string): Promise<void> {
    await this.run(async (client) => {
      const publisher = client.isCluster ? this.#publisherIn(client as Cluster) : client
      return publisher.publish(channel, message)
    })
  }

  /** Commands of the same tick are pipelined. */
  async run<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    if (this.#client.status !== 'ready') await this.#firstConnection()
    try {
      return await work(this.#client)
    } catch (error) {
      throw failureOf(error)
    }
  }

  script<Reply>(script: Script<Reply>, keys: readonly string[], values: readonly (string | number)[]): Promise<Reply> {
    return this.run(async (client) => {
      try {
        return (await client.evalsha(script.hash, keys.length, ...keys, ...values)) as Reply
      } catch (error) {
        if (!isUnknownScript(error)) throw error
        return (await client.eval(script.text, keys.length, ...keys, ...values)) as Reply
      }
    })
  }

  /** Like `script`, but sent immediately and without pipelining: for a script that is a batch itself. */
  scriptNow<Reply>(script: Script<Reply>, args: readonly (string | number)[]): Promise<Reply> {
    return this.run(async (client) => {
      try {
        return (await this.#sendNow(client, 'evalsha', [script.hash, ...args])) as Reply
      } catch (error) {
        if (!isUnknownScript(error)) throw error
        return (await this.#sendNow(client, 'eval', [script.text, ...args])) as Reply
      }
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#client.status === 'ready') {
      // `disconnect` follows with any result.
      await withTimeout(this.#client.quit(), this.#timeoutMs, () => new Error('no response')).catch(() => undefined)
    }
    this.#client.disconnect()
  }

  /** Logs once when the store becomes unavailable, and once when it is available again. */
  #logAvailability(log: Logger): void {
    let isUnavailable = false
    // Without a listener, ioredis writes errors to the console.
    this.#client.on('error', (error: unknown) => {
      this.#failure = error
    })
    this.#client.on('close', () => {
      if (!isUnavailable && !this.#closed)
        log.warn({ err: this.#failure }, 'the store cannot be reached; connecting again')
      isUnavailable = true
    })
    this.#client.on('ready', () => {
      if (isUnavailable) log.info('the store can be reached again')
      isUnavailable = false
      this.#failure = undefined
    })
  }

  /** Returns the same node while it is available: messages published by several nodes arrive in any order. */
  #publisherIn(cluster: Cluster): Redis | Cluster {
    if (this.#publisher?.status !== 'ready') this.#publisher = cluster.nodes('master').find(isReady)
    return this.#publisher ?? cluster
  }

  #sendNow(client: RedisClient, name: string, args: readonly (string | number)[]): Promise<unknown> {
    return client.sendCommand(new this.#Command(name, args as string[], { replyEncoding: 'utf8' })) as Promise<unknown>
  }

  async #firstConnection(): Promise<void> {
    if (this.#connecting && !this.#closed) {
      await withTimeout(this.#connecting, this.#timeoutMs, () => unavailable())
      this.#connecting = undefined
    }
    if (this.#client.status !== 'ready') throw unavailable(this.#failure)
  }
}

/** Loads the package lazily, because it is optional. */
export function loadIoredis(): Ioredis {
  try {
    return createRequire(import.meta.url)('ioredis')
  } catch (error) {
    throw new Error('The store redis needs the package ioredis: run npm install ioredis', { cause: error })
  }
}

/** Addresses to connect to first: the server, or the configured nodes of a cluster. */
export const addressesOf = ({ url = '', nodes }: RedisAddress): readonly string[] =>
  nodes?.map((node) => `redis://${new URL(node).host}`) ?? [url]

export const optionsOf = ({ nodes, timeoutMs, tls }: RedisAddress): RedisOptions => ({
  ...(tls ? { tls } : {}),
  ...(nodes ? accessBy(nodes, tls) : {}),
  connectTimeout: timeoutMs,
  commandTimeout: timeoutMs,
  socketTimeout: timeoutMs,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableAutoPipelining: true,
  retryStrategy: delayMsOf,
  // A former master that is a replica now: its host name may lead to the new master.
  reconnectOnError: (error) => error.message.startsWith('READONLY'),
})

/** @param attempt from 1 */
export const delayMsOf = (attempt: number): number =>
  Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_DELAY_MS)

/** Addresses of discovered nodes have no credentials, so those of the first URL apply to all. */
function accessBy(nodes: readonly string[], tls?: ConnectionOptions): RedisOptions {
  const { username, password, protocol } = new URL(nodes[0] ?? '')
  return {
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
    ...(protocol === 'rediss:' ? { tls: tls ?? {} } : {}),
  }
}

function clusterBy(ioredis: Ioredis, address: RedisAddress): Cluster {
  const { retryStrategy: _, enableOfflineQueue: __, ...redisOptions } = optionsOf(address)
  return new ioredis.Cluster([...addressesOf(address)], {
    redisOptions,
    enableOfflineQueue: false,
    enableAutoPipelining: true,
    maxRedirections: MAX_REDIRECTIONS,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshTimeout: address.timeoutMs,
    clusterRetryStrategy: delayMsOf,
    // Certificates name hosts, not addresses.
    ...(redisOptions.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
  })
}

/** Throws if a master is unreachable, because some keys would be missing. */
function mastersOf(cluster: Cluster): readonly Redis[] {
  const masters = cluster.nodes('master')
  const there = new Set(masters.map(({ options: { host, port } }) => `${host}:${port}`))
  const isMissing = cluster.slots.some(([owner]) => owner !== undefined && !there.has(owner))
  if (masters.length === 0 || isMissing) throw unavailable()
  return masters
}

const isReady = ({ status }: Redis): boolean => status === 'ready'

const unavailable = (cause?: unknown) => DependencyUnavailable('The store cannot be reached', { cause })

const isUnknownScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT')

/** Any error that is not a reply of the server means that the server is unavailable. */
function failureOf(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TenancyError || error instanceof TypeError) return error
  return error.name === 'ReplyError' ? rejectionOf(error) : unavailable(error)
}

/** Most error replies of a server are defects of Tenantry and are returned unchanged. */
export function rejectionOf(reply: Error): Error {
  if (NOT_KEPT_AS_A_NUMBER.test(reply.message)) {
    return InvalidRequest('The value of this key is not a counter', { cause: reply })
  }
  return UNABLE.test(reply.message) ? unavailable(reply) : reply
}
