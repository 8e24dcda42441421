/**
 * Serves the admin API on node:http, as a handler for your server or as its own server.
 *
 *   serveNode ─► listening ──close(timeoutMs)──► draining ──(all requests have ended, or timeoutMs)──► closed
 *
 * A draining server accepts no connection and closes each connection after its request. After `timeoutMs` it destroys the rest.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Mountable } from '../app.ts'
import { handleRequest, pathnameOf } from './listener.ts'

export { requireTenant } from './guarded.ts'
export { enforceQuota, guard, impersonation, problemHandler } from './node-guard.ts'

/** From the first byte of a request to the end of its headers. */
const HEADERS_TIMEOUT_MS = 10_000
/** To the end of its body: 1 MiB at 35 KB a second. */
const REQUEST_TIMEOUT_MS = 30_000
/** Longer than the idle timeout of load balancers (a minute), so that they close idle connections first. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** Without a byte in either direction. Longer than the maximum of `Prefer: wait`. */
const SOCKET_TIMEOUT_MS = 120_000
const CHECK_INTERVAL_MS = 5_000

/**
 * A handler for your node:http server. Other paths go to `next`, or receive 404 without it.
 *
 *   const http = createHttp(tenancy, { adminTokens })
 *   const handle = nodeHandler(http)
 *   createServer((req, res) => handle(req, res, () => app(req, res))).listen(3000)
 */
export function nodeHandler(
  http: Mountable,
): (incoming: IncomingMessage, outgoing: ServerResponse, next?: () => void) => void {
  return (incoming, outgoing, next) => {
    if (next && !http.handles(pathnameOf(incoming.url ?? '/'))) next()
    else handleRequest(http, incoming, outgoing)
  }
}

export interface ServeOptions {
  /** 0 selects a free port. */
  readonly port: number
  readonly host: string
}

export interface NodeServer {
  /** `http://127.0.0.1:4000` */
  readonly url: string
  readonly port: number
  /** Ends gracefully; resolves when the last connection is closed, `timeoutMs` from now at the latest. */
  close(timeoutMs: number): Promise<void>
}

/**
 * Serves only the admin API, the probes and the metrics. Replaces the global `Request` and `Response` by lighter ones.
 *
 *   const server = await serveNode(http, { port: 4000, host: '127.0.0.1' })
 *   console.log(server.url)
 *   await server.close(10_000)
 */
export async function serveNode(http: Mountable, { port, host }: ServeOptions): Promise<NodeServer> {
  const server = createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
  })
  server.timeout = SOCKET_TIMEOUT_MS
  server.on('request', (incoming, outgoing) => handleRequest(http, incoming, outgoing, { lightGlobals: true }))
  const drain = drainOf(server)
  try {
    await once(server.listen(port, host), 'listening')
  } catch (error) {
    throw new Error(reasonOf(error as NodeJS.ErrnoException, port, host), { cause: error })
  }
  const address = server.address() as AddressInfo
  return { url: urlOf(address.port, host), port: address.port, close: drain }
}

/** Tracks the running requests of each connection, so that a close waits only for them. */
function drainOf(server: Server): (timeoutMs: number) => Promise<void> {
  const running = new Map<Socket, Set<ServerResponse>>()
  let isDraining = false

  server.on('connection', (socket) => {
    running.set(socket, new Set())
    socket.once('close', () => running.delete(socket))
  })
  server.on('request', ({ socket }, response) => {
    const responses = running.get(socket)
    responses?.add(response)
    if (isDraining) response.shouldKeepAlive = false
    response.on('close', () => {
      responses?.delete(response)
      if (isDraining && responses?.size === 0) socket.destroySoon()
    })
  })

  const close = async (timeoutMs: number): Promise<void> => {
    isDraining = true
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const [socket, responses] of running) {
      if (responses.size === 0) socket.destroy()
      for (const response of responses) response.shouldKeepAlive = false
    }
    const timer = setTimeout(() => server.closeAllConnections(), timeoutMs)
    await closed
    clearTimeout(timer)
  }
  let closing: Promise<void> | undefined
  return (timeoutMs) => {
    closing ??= close(timeoutMs)
    return closing
  }
}

function reasonOf({ code, message }: NodeJS.ErrnoException, port: number, host: string): string {
  if (code === 'EADDRINUSE')
    return `port ${port} of ${host} is in use: stop the process that listens on it, or choose another port`
  if (code === 'EACCES') return `port ${port} of ${host} is not allowed for this user: choose a port above 1023`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${host} is not an address of this machine`
  return `cannot listen on port ${port} of ${host}: ${message}`
}

/** An address to open in a browser: not every system can connect to the unspecified address. */
function urlOf(port: number, host: string): string {
  if (host === '0.0.0.0' || host === '::') return `http://localhost:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
