/**
 * The store in Redis or Valkey: one server, or a cluster. It forgets what its configuration lets it forget; sessions and quotas
 * outlive a restart only where it writes to its disk.
 *
 * An expiry is the server's own. `ioredis` is asked for when a store is opened.
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
  /** In the place of `url`: some nodes of a cluster, as URLs. Who asks, and whether by TLS, is what the first says, for all. */
  readonly nodes?: readonly string[]
  /** Of TLS, beside what `rediss:` says: a certificate authority of one's own, as `node:tls` takes it. */
  readonly tls?: ConnectionOptions
  /** Before each key and channel, so that others can use the same server. */
  readonly keyPrefix?: string
  /** How long an answer is waited for; default 1000. */
  readonly timeoutMs?: number
  /** Added to the server's clock where it says what time it is, or which day is counted into, so that a test can travel. */
  readonly clockOffsetMs?: () => number
}

/** A `StoreDriver` that asks for nothing but a log. */
export interface RedisStoreDriver {
  open(base: { readonly log: Logger }): Store
}

export function redisStore({
  url,
  nodes,
  tls,
  timeoutMs = TIMEOUT_MS,
  ...options
}: RedisStoreOptions): RedisStoreDriver {
  if ((url === undefined) === (nodes === undefined)) throw new TypeError('the store redis needs either a url or nodes')
  const address = { url, nodes, tls, timeoutMs }
  return { open: ({ log }) => storeAt(address, log, options) }
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

  /** What matches one of the patterns, once or more than once. */
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

/** @param info what a server says of its memory; without a bound it drops nothing */
function evictingPolicyIn(info: string): string | undefined {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1]
  return /^maxmemory:0\b/m.test(info) || policy === 'noeviction' ? undefined : policy
}

const ttlMsOf = (ttlSeconds: number): number => Math.ceil(ttlSeconds * 1_000)
