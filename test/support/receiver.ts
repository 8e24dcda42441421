/**
 * A receiver of webhooks on loopback that stores requests and sends configured responses.
 *
 *   const receiver = await startReceiver()
 *   receiver.respondWith(() => ({ status: 503 }))
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface ReceiverResponse {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Returns a response; undefined if it has written one, or never will. */
export type Responder = (received: Received, response: ServerResponse) => ReceiverResponse | undefined

export interface Receiver {
  readonly url: string
  readonly received: readonly Received[]
  /** Empties `received`. */
  forget(): void
  respondWith(how: Responder): void
  close(): Promise<void>
}

export async function startReceiver(how: Responder = () => ({})): Promise<Receiver> {
  const received: Received[] = []
  let responder = how
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const one = { path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() }
      received.push(one)
      const reply = responder(one, response)
      if (!reply) return
      const { status = 200, headers = {}, body = '' } = reply
      response.writeHead(status, headers).end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    forget() {
      received.splice(0)
    },
    respondWith(next) {
      responder = next
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
