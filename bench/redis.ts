/**
 * Redis for benchmarks: REDIS_URL, or a `redis-server` on the path. Without either, cases that need Redis do not run.
 */
import { startRedisServer } from '../test/support/redis-server.ts'

export interface BenchRedis {
  readonly url: string
  stop(): Promise<void>
}

export async function openRedis(say: (text: string) => void): Promise<BenchRedis | undefined> {
  const url = process.env.REDIS_URL
  if (url) return { url, stop: async () => undefined }
  try {
    return await startRedisServer()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    say('not run: Redis (REDIS_URL is not set, and there is no redis-server on the path)')
    return undefined
  }
}
