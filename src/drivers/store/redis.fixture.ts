/** Opens a store in Redis with its own keys on a shared server, and an adjustable clock. */
import { randomUUID } from 'node:crypto'
import type { ConnectionOptions } from 'node:tls'
import { Cluster, Redis } from 'ioredis'
import { createLogger, type Logger } from '../../kernel/base/logger.ts'
import type { Store } from '../../kernel/store/store.ts'
import type { OpenedStore } from '../../testing/store/opened-store.ts'
import { redisStore } from './redis.ts'

/** Long enough for a busy machine. */
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
  /** Connection in addition to the store's. */
  readonly admin: Redis | Cluster
  cleanUp(): Promise<void>
}

/** @param admin address for inspection and aging, if the store connects by a proxy */
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
    /** The server's clock cannot be moved, so the TTLs of entries are shortened instead. */
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

/** Records every message of a channel from now on, and every gap in which messages may have been lost. */
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
