/** Proxies on real sockets that connect to this machine for any requested address. They end with their test. */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import type { Certificate } from './certificates.fixture.ts'
import { type Receiver, watched } from './receivers.fixture.ts'

export interface TestProxy extends Receiver {
  /** As it is configured, without credentials. */
  readonly address: string
  readonly asked: readonly { readonly authority: string; readonly headers: IncomingHttpHeaders }[]
}

/** What it does about a CONNECT; `open` connects and answers 200. */
export type Conduct = (socket: Socket, authority: string, open: () => void) => void

export async function startProxy(
  conduct: Conduct = (_, __, open) => open(),
  certificate?: Certificate,
): Promise<TestProxy> {
  const asked: { authority: string; headers: IncomingHttpHeaders }[] = []
  const server: Server = certificate ? createHttpsServer(certificate) : createServer()
  server.on('connect', ({ url = '', headers }: IncomingMessage, socket: Socket) => {
    asked.push({ authority: url, headers })
    socket.on('error', () => undefined).on('end', () => socket.end())
    socket.resume()
    conduct(socket, url, () => void tunnel(socket, url))
  })
  const receiver = await watched(server)
  const address = `${certificate ? 'https' : 'http'}://127.0.0.1:${receiver.port}`
  return Object.defineProperties(receiver, Object.getOwnPropertyDescriptors({ address, asked })) as TestProxy
}

async function tunnel(socket: Socket, authority: string): Promise<void> {
  const port = Number(authority.slice(authority.lastIndexOf(':') + 1))
  const to = connect(port, '127.0.0.1').on('error', () => socket.destroy())
  socket.on('close', () => to.destroy())
  await once(to, 'connect')
  socket.write('HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n')
  socket.pipe(to).pipe(socket)
}
