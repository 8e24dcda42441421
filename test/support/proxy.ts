/** A proxy to a server that a test can close and open: a closed proxy refuses connections. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'

export interface Proxy {
  /** URL of the server through the proxy. */
  readonly url: string
  /** Ends every connection and refuses new ones. */
  close(): Promise<void>
  open(): Promise<void>
  /** Stops forwarding in both directions, and accepts new connections without a server: a cut network. */
  blackhole(): void
  /** Delays each piece by `ms`, in both directions; 0 removes the delay. */
  slow(ms: number): void
}

/** @param change converts the bytes that a client sends, piece by piece */
export async function startProxy(serverUrl: string, change?: (sent: Buffer) => Buffer): Promise<Proxy> {
  const target = new URL(serverUrl)
  const sockets = new Set<Socket>()
  let isBlackholed = false
  let delayMs = 0
  const delaying = () =>
    new Transform({
      transform(piece, _, done) {
        if (delayMs === 0) done(null, piece)
        else setTimeout(() => done(null, piece), delayMs).unref()
      },
    })
  const server = createServer((incoming) => {
    if (isBlackholed) {
      sockets.add(incoming)
      incoming.on('error', () => undefined).on('close', () => sockets.delete(incoming))
      return
    }
    const outgoing = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(from)
      if (change && from === incoming) from.on('data', (sent: Buffer) => to.write(change(sent)))
      else from.pipe(delaying()).pipe(to)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  await listen(0)
  const { port } = server.address() as AddressInfo
  const url = new URL(serverUrl)
  url.host = `127.0.0.1:${port}`
  return {
    url: url.href,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
    open: () => {
      isBlackholed = false
      return listen(port)
    },
    slow(ms) {
      delayMs = ms
    },
    blackhole() {
      isBlackholed = true
      for (const socket of sockets) socket.unpipe().pause()
    },
  }
}
