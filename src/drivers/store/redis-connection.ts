/**
 * The way to Redis or Valkey: one server, or a cluster.
 *
 *   connecting ──ready──► there ──lost, or silent for `timeoutMs`──► away ──ready──► there
 *
 * Before it was ever there, a call waits for the connection, `timeoutMs` at most. Away, a call fails at once. No command is sent
 * twice: whether one that had no answer was carried out is unknown, and a counter must not be added to again. What a server
 * refuses without having done it (a script that it does not know, a slot that is elsewhere) may be sent again.
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
/** Of a cluster: who has a slot now is told at once; a node that is lost is asked for again by the next command. */
const MAX_REDIRECTIONS = 4

export interface RedisAddress {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS. */
  readonly url?: string
  /** Some nodes of a cluster, as URLs; the others are found by them. Who asks, and whether by TLS, is what the first says. */
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
  /** Of the last attempt to connect, while there is no connection: a command that fails meanwhile does not say why. */
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

  /** What answers for keys: the server, or every master of a cluster. */
  masters(): Promise<readonly Redis[]> {
    return this.run(async (client) => (client.isCluster ? mastersOf(client as Cluster) : [client as Redis]))
  }

  async publish(channel: string, message: string): Promise<void> {
    await this.run(async (client) => {
      const publisher = client.isCluster ? this.#publisherIn(client as Cluster) : client
      return publisher.publish(channel, message)
    })
  }

  /** Commands of the same moment go together. */
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

  /** The same, sent at once and alone: for what is a batch of its own. */
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
      // Answered, refused or late: `disconnect` follows.
      await withTimeout(this.#client.quit(), this.#timeoutMs, () => new Error('no answer')).catch(() => undefined)
    }
    this.#client.disconnect()
  }

  /** Once when it goes, once when it is back. */
  #logAvailability(log: Logger): void {
    let isUnavailable = false
    // Unheard, an 'error' would be written to the console.
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

  /** The same node as long as it is there: what is published by several arrives in any order. */
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

/** Of a host that has it: whoever keeps no store in Redis need not install it. */
export function loadIoredis(): Ioredis {
  try {
    return createRequire(import.meta.url)('ioredis')
  } catch (error) {
    throw new Error('the store redis needs the package ioredis: npm install ioredis', { cause: error })
  }
}

/** Where to begin: the server, or the nodes of a cluster that are known before the others are found. */
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
  // A replica that was a master: the name may lead to the new one by now.
  reconnectOnError: (error) => error.message.startsWith('READONLY'),
})

/** @param attempt from 1 */
export const delayMsOf = (attempt: number): number =>
  Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_DELAY_MS)

/** The addresses of the nodes that are found later do not say it, so what the first says holds for all. */
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
    // Names in certificates are of hosts.
    ...(redisOptions.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
  })
}

/** Throws when a part of the keys is out of reach. */
function mastersOf(cluster: Cluster): readonly Redis[] {
  const masters = cluster.nodes('master')
  const there = new Set(masters.map(({ options: { host, port } }) => `${host}:${port}`))
  const isMissing = cluster.slots.some(([owner]) => owner !== undefined && !there.has(owner))
  if (masters.length === 0 || isMissing) throw unavailable()
  return masters
}

const isReady = ({ status }: Redis): boolean => status === 'ready'

const unavailable = (cause?: unknown) => DependencyUnavailable('the store cannot be reached', { cause })

const isUnknownScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT')

/** Whatever fails that is no answer is the absence of the server. */
function failureOf(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TenancyError || error instanceof TypeError) return error
  return error.name === 'ReplyError' ? rejectionOf(error) : unavailable(error)
}

/** Of what a server answers, most is a fault of ours. */
export function rejectionOf(reply: Error): Error {
  if (NOT_KEPT_AS_A_NUMBER.test(reply.message)) {
    return InvalidRequest('what is kept under this key is not a counter', { cause: reply })
  }
  return UNABLE.test(reply.message) ? unavailable(reply) : reply
}
