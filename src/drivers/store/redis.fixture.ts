/** A store in Redis that has keys of its own on a server which others use too, and whose time can be moved. */
import { randomUUID } from 'node:crypto'
import type { ConnectionOptions } from 'node:tls'
import { Cluster, Redis } from 'ioredis'
import { createLogger, type Logger } from '../../kernel/base/logger.ts'
import type { Store } from '../../kernel/store/store.ts'
import type { OpenedStore } from '../../testing/store/opened-store.ts'
import { redisStore } from './redis.ts'

/** More than a busy machine needs. */
export const TIMEOUT_MS = 20_000

export interface RedisAddress {
  readonly url?: string
  readonly nodes?: readonly string[]
  /** Default: `TIMEOUT_MS`. */
  readonly timeoutMs?: number
  readonly log?: Logger
  readonly tls?: ConnectionOptions
}

export interface OpenedInRedis extends OpenedStore {
  readonly prefix: string
  /** A connection beside the store's. */
  readonly admin: Redis | Cluster
  cleanUp(): Promise<void>
}

/** @param admin where it is looked into and aged, if the store is reached by another way */
export async function openInRedis(address: RedisAddress, admin: RedisAddress = address): Promise<OpenedInRedis> {
  const prefix = `test-${randomUUID()}:`
  const client = admin.nodes ? new Cluster([...admin.nodes]) : new Redis(admin.url ?? '')
  const { log = createLogger({ level: 'silent' }), ...options } = address
  let offsetMs = 0
  const keys = () => keysOf(client, `${prefix}*`)
  return {
    prefix,
    admin: client,
    store: redisStore({ timeoutMs: TIMEOUT_MS, ...options, keyPrefix: prefix, clockOffsetMs: () => offsetMs }).open({
      log,
    }),
    /** The server's own clock cannot be moved: what lives shortly is given less time to live. */
    async advance(ms) {
      offsetMs += ms
      for (const key of await keys()) {
        const leftMs = await client.pttl(key)
        if (leftMs >= 0) await client.pexpire(key, Math.max(leftMs - ms, 0))
      }
    },
    async cleanUp() {
      await Promise.all((await keys()).map((key) => client.unlink(key)))
      client.disconnect()
    },
  }
}

/** From now on: every message of a channel, and one gap for each time that something may have been missed. */
export async function listenTo(
  store: Store,
  channel: string,
): Promise<{ readonly received: readonly string[]; readonly gaps: readonly string[] }> {
  const received: string[] = []
  const gaps: string[] = []
  await store.subscribe(
    channel,
    (message) => void received.push(message),
    () => void gaps.push('gap'),
  )
  return { received, gaps }
}

async function keysOf(client: Redis | Cluster, pattern: string): Promise<string[]> {
  const found: string[] = []
  for (const master of client instanceof Cluster ? client.nodes('master') : [client]) {
    for await (const page of master.scanStream({ match: pattern, count: 1_000 })) found.push(...page)
  }
  return found
}
