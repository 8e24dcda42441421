/** A way to a server that can be cut and mended: what is connected is thrown out, and nobody else is let in. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export interface Relay {
  /** The same database by way of the relay. */
  readonly url: string
  cut(): Promise<void>
  mend(): Promise<void>
}

export async function relayTo(url: string): Promise<Relay> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const join = (from: Socket, to: Socket) => {
    sockets.add(from)
    from
      .on('error', () => undefined)
      .on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    from.pipe(to)
  }
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((client) => {
      const upstream = connect(Number(target.port), target.hostname)
      join(client, upstream)
      join(upstream, client)
    })
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  }
  let server = await listen(0)
  const { port } = server.address() as AddressInfo
  const relayed = new URL(url)
  relayed.host = `127.0.0.1:${port}`
  return {
    url: relayed.href,
    async cut() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
    async mend() {
      server = await listen(port)
    },
  }
}
