/**
 * The store in Redis or Valkey: one server, or a cluster. Sessions and quotas survive a restart only if the server
 * persists its data and may not evict keys.
 *
 * Entries expire by the server's clock. The package `ioredis` is loaded when a store is opened.
 */
import type { ConnectionOptions } from 'node:tls'
import type { Logger } from '../../kernel/base/logger.ts'
import { checkEntry, checkMessage, type Store } from '../../kernel/store/store.ts'
import { type RedisAddress, RedisConnection } from './redis-connection.ts'
import { RedisCounters } from './redis-counters.ts'
import { RedisKeys } from './redis-keys.ts'
import { INCREMENT } from './redis-scripts.ts'
import { RedisSubscriber } from './redis-subscriber.ts'
import { RedisSums } from './redis-sums.ts'

const TIMEOUT_MS = 1_000
const KEYS_PER_SCAN = '1000'

export interface RedisStoreOptions {
  /** `redis://user:password@host:port/database`; `rediss:` for TLS. */
  readonly url?: string
  /**
   * URLs of some nodes of a cluster, instead of `url`. The first URL has the credentials and the protocol for all
   * nodes.
   */
  readonly nodes?: readonly string[]
  /** Options of TLS in addition to `rediss:`, such as a certificate authority, as for `node:tls`. */
  readonly tls?: ConnectionOptions
  /** Prefix of each key and channel, for a shared server. */
  readonly keyPrefix?: string
  /** Timeout of a response, in ms; default 1000. */
  readonly timeoutMs?: number
  /** Offset added to the server's clock for times and days of counters, in ms, for tests. */
  readonly clockOffsetMs?: () => number
}

/** A `StoreDriver` that needs only a log. */
export interface RedisStoreDriver {
  readonly identity: string
  open(base: { readonly log: Logger }): Store
}

export function redisStore({
  url,
  nodes,
  tls,
  timeoutMs = TIMEOUT_MS,
  ...options
}: RedisStoreOptions): RedisStoreDriver {
  if ((url === undefined) === (nodes === undefined)) throw new TypeError('The store redis needs either a url or nodes')
  const address = { url, nodes, tls, timeoutMs }
  return {
    identity: identityOf(nodes ?? [url ?? ''], options.keyPrefix),
    open: ({ log }) => storeAt(address, log, options),
  }
}

/** Addresses without credentials, and the prefix of keys. */
function identityOf(urls: readonly string[], keyPrefix = ''): string {
  const addresses = urls.map((url) => {
    const { hostname, port, pathname } = URL.parse(url) ?? { hostname: '', port: '', pathname: '' }
    return `${hostname}:${port || '6379'}/${pathname.slice(1) || '0'}`
  })
  return `redis ${addresses.toSorted().join(' ')}${keyPrefix && ` ${keyPrefix}`}`
}

function storeAt(
  address: RedisAddress,
  log: Logger,
  { keyPrefix = '', clockOffsetMs = () => 0 }: Pick<RedisStoreOptions, 'keyPrefix' | 'clockOffsetMs'>,
): Store {
  const keys = new RedisKeys(keyPrefix)
  const connection = new RedisConnection(address, log)
  const subscriber = new RedisSubscriber(address, log)
  const channelOf = (channel: string) => `${keyPrefix}channel:${channel}`

  /** Yields keys that match one of the patterns; a key may be repeated. */
  async function* found(patterns: readonly string[]): AsyncGenerator<readonly string[]> {
    for (const master of await connection.masters()) {
      for (const pattern of patterns) {
        let cursor = '0'
        do {
          const from = cursor
          const [next, page] = await connection.run(() => master.scan(from, 'MATCH', pattern, 'COUNT', KEYS_PER_SCAN))
          yield page
          cursor = next
        } while (cursor !== '0')
      }
    }
  }

  return {
    name: 'redis',
    isCache: true,
    counters: new RedisCounters(connection, keys, clockOffsetMs),
    sums: new RedisSums(connection, keys),
    async get(owner, key) {
      checkEntry({ owner, key })
      return connection.run((client) => client.get(keys.of(owner, key)))
    },
    async set(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      const at = keys.of(owner, key)
      await connection.run((client) =>
        ttlSeconds === undefined ? client.set(at, value) : client.set(at, value, 'PX', ttlMsOf(ttlSeconds)),
      )
    },
    async setIfAbsent(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      const at = keys.of(owner, key)
      const reply = await connection.run((client) =>
        ttlSeconds === undefined ? client.set(at, value, 'NX') : client.set(at, value, 'PX', ttlMsOf(ttlSeconds), 'NX'),
      )
      return reply !== null
    },
    async take(owner, key) {
      checkEntry({ owner, key })
      return connection.run((client) => client.getdel(keys.of(owner, key)))
    },
    async delete(owner, key) {
      checkEntry({ owner, key })
      await connection.run((client) => client.unlink(keys.of(owner, key)))
    },
    async increment(owner, key, amount, ttlSeconds) {
      checkEntry({ owner, key, amount, ttlSeconds })
      const ttlMs = ttlSeconds === undefined ? 0 : ttlMsOf(ttlSeconds)
      return Number(await connection.script(INCREMENT, [keys.of(owner, key)], [amount, ttlMs]))
    },
    async list(key) {
      checkEntry({ owner: null, key })
      const owners = new Set<string>()
      for await (const page of found([keys.patternOf(key)])) {
        for (const one of page) {
          const owner = keys.ownerOf(one)
          if (owner && keys.of(owner, key) === one) owners.add(owner)
        }
      }
      const kept = await Promise.all(
        [...owners].map(async (tenantId) => {
          const value = await connection.run((client) => client.get(keys.of(tenantId, key)))
          return value === null ? [] : [{ tenantId, value }]
        }),
      )
      return kept.flat()
    },
    async publish(channel, message) {
      checkMessage({ channel, message })
      await connection.publish(channelOf(channel), message)
    },
    async subscribe(channel, onMessage, onGap) {
      checkMessage({ channel })
      return subscriber.listen(channelOf(channel), onMessage, onGap)
    },
    async purge(tenantId) {
      checkEntry({ owner: tenantId })
      for await (const page of found(keys.patternsOf(tenantId))) {
        const own = page.filter((key) => keys.ownerOf(key) === tenantId)
        await Promise.all(own.map((key) => connection.run((client) => client.unlink(key))))
      }
    },
    async count(tenantId) {
      checkEntry({ owner: tenantId })
      const own = new Set<string>()
      for await (const page of found(keys.patternsOf(tenantId))) {
        for (const key of page) if (keys.ownerOf(key) === tenantId) own.add(key)
      }
      return own.size
    },
    async evictionPolicy() {
      const masters = await connection.masters()
      const replies = await Promise.all(masters.map((master) => connection.run(() => master.info('memory'))))
      return replies.map(evictingPolicyIn).find((policy) => policy !== undefined)
    },
    async times() {
      const masters = await connection.masters()
      const replies = await Promise.all(masters.map((master) => connection.run(() => master.time())))
      return replies.map(
        ([seconds, microseconds]) => Number(seconds) * 1_000 + Number(microseconds) / 1_000 + clockOffsetMs(),
      )
    },
    async ping() {
      await connection.run((client) => client.ping())
    },
    async close() {
      subscriber.close()
      await connection.close()
    },
  }
}

/** @param info memory section of INFO; without a memory limit a server evicts nothing */
function evictingPolicyIn(info: string): string | undefined {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1]
  return /^maxmemory:0\b/m.test(info) || policy === 'noeviction' ? undefined : policy
}

const ttlMsOf = (ttlSeconds: number): number => Math.ceil(ttlSeconds * 1_000)
