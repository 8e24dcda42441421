/** Makes the store of the configuration. Imports ioredis only for a configured Redis. */
import type { z } from 'zod'
import type { StoreDriver } from '../kernel/store/store.ts'
import type { Store } from './settings/store.ts'

/** @param redisUrl of the environment. Undefined: the default of a tenancy */
export async function storeOf(
  settings: z.output<typeof Store> | undefined,
  redisUrl: string | undefined,
): Promise<StoreDriver | undefined> {
  if (settings === undefined) return redisUrl === undefined ? undefined : redis({ url: redisUrl })
  if (settings === 'postgres') return undefined
  if (settings === 'memory') return (await import('../drivers/store/memory.ts')).memoryStore()
  if (!('driver' in settings)) return settings
  const { driver: _, ...options } = settings
  return redis(options)
}

const redis = async (options: Parameters<typeof import('../drivers/store/redis.ts').redisStore>[0]) =>
  (await import('../drivers/store/redis.ts')).redisStore(options)

/** Whether the store of the configuration is not the Redis of the environment. */
export async function isOtherStore(settings: z.output<typeof Store>, redisUrl: string): Promise<boolean> {
  const [own, other] = await Promise.all([storeOf(settings, undefined), storeOf(undefined, redisUrl)])
  return own?.identity !== other?.identity
}
