/** How a server of ../bench/servers that is one route on node:http begins and ends: it prints its URL, and SIGTERM closes it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** @param end of what the route stands on, once nothing comes any more */
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
