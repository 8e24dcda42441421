/** Receivers on real sockets, each with what it has seen; they end with their test. */
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from 'node:http'
import { type AddressInfo, createServer, type Server, Socket } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'

export interface Receiver {
  readonly url: string
  readonly port: number
  /** How many connections were made. */
  readonly connections: number
  /** How many of them are open. */
  readonly open: number
  /** Received bytes of each connection. */
  readonly received: readonly string[]
  /** Ends all connections, and continues to listen. */
  hangUp(): void
}

/** Speaks no protocol: `talk` is called with each piece that arrives, `greet` with each connection. */
export async function listen(
  talk: (socket: Socket, piece: string) => void,
  greet: (socket: Socket) => void = () => undefined,
): Promise<Receiver> {
  return watched(
    createServer((socket) => {
      greet(socket)
      socket.on('data', (piece) => talk(socket, piece.toString('latin1')))
    }),
  )
}

export const listenHttp = (listener: RequestListener): Promise<Receiver> => watched(createHttpServer(listener))

/** Any server: it listens, and what arrives is kept. */
export async function watched(server: Server, protocol = 'http'): Promise<Receiver> {
  const sockets = new Set<Socket>()
  const received: string[] = []
  let connections = 0
  server.on('connection', (socket: Socket) => {
    const index = connections++
    received.push('')
    sockets.add(socket)
    socket
      .on('data', (piece: Buffer) => {
        received[index] += piece.toString('latin1')
      })
      .on('error', () => undefined)
      .on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const hangUp = () => {
    for (const socket of sockets) socket.destroy()
  }
  onTestFinished(async () => {
    const closed = once(server, 'close')
    server.close()
    hangUp()
    await closed
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `${protocol}://127.0.0.1:${port}/hook`,
    port,
    get connections() {
      return connections
    },
    get open() {
      return sockets.size
    },
    received,
    hangUp,
  }
}

/** Waits until the receivers have no open connection. */
export const gone = (...receivers: Receiver[]) =>
  eventually(() => expect(receivers.map(({ open }) => open)).toEqual(receivers.map(() => 0)))

/** Returns the open sockets that this process did not have yet when this was called: sockets of earlier tests may close meanwhile. */
export function socketsFromNow(): () => number {
  const sockets = () => (process as any)._getActiveHandles().filter((handle: unknown) => handle instanceof Socket)
  const earlier = new Set(sockets())
  return () => sockets().filter((socket: Socket) => !earlier.has(socket)).length
}

export async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** A port without a listener. */
export async function deadPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
