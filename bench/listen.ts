/** Starts a node:http server for ../bench/servers: prints its URL, and closes on SIGTERM. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** @param end releases resources of the route after the last request */
export function listen(
  route: (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>,
  end: () => Promise<void>,
): void {
  const server = createServer((incoming, outgoing) => {
    route(incoming, outgoing).catch((error) => {
      process.stderr.write(`${error}\n`)
      outgoing.writeHead(500).end()
    })
  })
  server.listen(0, '127.0.0.1', () =>
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
  )
  process.on('SIGTERM', async () => {
    server.close()
    server.closeAllConnections()
    await end()
  })
}
