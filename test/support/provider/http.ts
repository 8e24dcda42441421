/** The provider's HTTP server on loopback: reads a request, applies faults, and sends the response. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as bodyText } from 'node:stream/consumers'
import type { FaultsInside } from './faults.ts'
import { parsed } from './form.ts'
import type { ProviderRequest, ProviderResponse, Responder } from './responder.ts'

export interface Listening {
  readonly port: number
  /** Closes all connections, and refuses new ones. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

export interface Serving {
  readonly responder: Responder
  readonly faults: FaultsInside
  readonly requests: ProviderRequest[]
  readonly nextId: () => string
}

export async function listen(serving: Serving): Promise<Listening> {
  const server = createServer((incoming, response) => {
    serve(serving, incoming, response).catch((error: Error) => fail(response, error))
  })
  const listenAt = async (at: number) => {
    server.listen(at, '127.0.0.1')
    await once(server, 'listening')
  }
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  await listenAt(0)
  const { port } = server.address() as AddressInfo
  return { port, down: close, up: () => listenAt(port), close }
}

async function serve(serving: Serving, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { responder, faults, requests, nextId } = serving
  const request = await read(incoming, nextId())
  requests.push(request)
  const instead = faults.instead(request)
  if (instead) {
    send(response, instead, request)
    return
  }
  const reply = responder.respond(request)
  const { idempotencyKey } = request
  let isInFlight = idempotencyKey !== undefined && !responder.inFlight.has(idempotencyKey)
  const finish = () => {
    if (isInFlight && idempotencyKey !== undefined) responder.inFlight.delete(idempotencyKey)
    isInFlight = false
  }
  if (isInFlight && idempotencyKey !== undefined) responder.inFlight.add(idempotencyKey)
  response.on('close', finish)
  const fate = await faults.before(request)
  finish()
  if (fate === 'cut') incoming.socket.resetAndDestroy()
  else if (!response.destroyed) send(response, fate === 'lose' ? faults.lost : reply, request)
}

async function read(incoming: IncomingMessage, id: string): Promise<ProviderRequest> {
  const url = new URL(incoming.url ?? '/', 'http://provider')
  const body = await bodyText(incoming)
  return {
    id,
    method: incoming.method ?? 'GET',
    path: url.pathname,
    params: { ...parsed(url.search.slice(1)), ...parsed(body) },
    key: /^Bearer (.*)$/.exec(incoming.headers.authorization ?? '')?.[1],
    apiVersion: one(incoming.headers['stripe-version']),
    idempotencyKey: one(incoming.headers['idempotency-key']),
  }
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header
}

function send(response: ServerResponse, { status, headers, body }: ProviderResponse, request: ProviderRequest): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'request-id': request.id,
    ...(request.apiVersion && { 'stripe-version': request.apiVersion }),
    ...(request.idempotencyKey && { 'idempotency-key': request.idempotencyKey }),
    ...headers,
  })
  response.end(JSON.stringify(body))
}

/** Reports an error of the fake itself in the response, unless the request was aborted. */
function fail(response: ServerResponse, error: Error): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const message = `The fake provider failed because of a bug in it: ${error.stack}`
  response.writeHead(500, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
  response.end(JSON.stringify({ error: { type: 'api_error', message } }))
}
