/**
 * Converts requests and responses of node:http for `fetch`, for every host on node:http.
 *
 * @hono/node-server builds the Request lazily and writes whole responses. Streams are written here: at the pace of the reader, and
 * an aborted stream closes the connection. A client that disconnects aborts `request.signal` and ends the source of the stream.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream as NodeReadableStream } from 'node:stream/web'
import { getRequestListener } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { enterContext } from '../../kernel/base/context.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { Mountable } from '../app.ts'
import { problemResponse } from '../problem.ts'
import { ANONYMOUS } from '../requests/serve-request.ts'
import { isEndless, isStream } from '../respond.ts'
import { lingerOnClose } from './lingering-close.ts'

const CLOSE_CHECK_MS = 250
const DOT_SEGMENT = /\/(\.|%2e)/i

export interface RequestHandlerOptions {
  /** The client's address; default: the connection's. */
  readonly ip?: string | undefined
  /** Replaces the global `Request` and `Response` of the process by lighter ones; default false. */
  readonly lightGlobals?: boolean
}

/** Handles one request of node:http with any path. */
export function handleRequest(
  http: Mountable,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { ip = incoming.socket.remoteAddress, lightGlobals = false }: RequestHandlerOptions = {},
): void {
  const listen = getRequestListener(
    async (request) => {
      const response = await http.fetch(request, { ip, socketIp: incoming.socket.remoteAddress ?? null })
      lingerOnClose(incoming, outgoing)
      if (!isStream(response)) return response
      await send(response, incoming, outgoing)
      // A clone, because only an instance of the platform's class is recognized after the globals are replaced.
      return RESPONSE_ALREADY_SENT.clone()
    },
    { overrideGlobalObjects: lightGlobals, hostname: 'localhost', errorHandler: () => unreadable(incoming, outgoing) },
  )
  listen(incoming, outgoing).catch((error) => outgoing.destroy(error))
}

/** The path of a request target as in the URL of the Request, with resolved dot segments. */
export function pathnameOf(target: string): string {
  const isAbsolute = /^https?:\/\//i.test(target)
  const path = isAbsolute ? target : (target.split(/[?#]/, 1)[0] ?? '')
  if (!isAbsolute && !DOT_SEGMENT.test(path)) return path
  const url = isAbsolute ? path : `http://localhost${path}`
  return URL.canParse(url) ? new URL(url).pathname : path
}

async function send(response: Response, { socket }: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  outgoing.flushHeaders()
  const body = Readable.fromWeb(response.body as NodeReadableStream)
  const stop = isEndless(response) ? whenClosed(socket, () => body.destroy()) : undefined
  // `respondStream` has logged the error. `pipeline` destroys the connection, so the client detects the abort.
  await pipeline(body, outgoing).catch(() => undefined)
  stop?.()
}

/** Calls `end` when the server stops to listen: its close waits for all responses. Returns a function that stops the wait. */
function whenClosed(socket: Socket & { readonly server?: Server }, end: () => void): () => void {
  const timer = setInterval(() => {
    if (socket.server?.listening === false) end()
  }, CLOSE_CHECK_MS).unref()
  return () => clearInterval(timer)
}

/** The response if no Request can be created: the Host header or the target is not valid in a URL. */
function unreadable(incoming: IncomingMessage, outgoing: ServerResponse): Response {
  lingerOnClose(incoming, outgoing)
  const context = { requestId: randomUUID(), actor: ANONYMOUS, ip: null }
  const fault = { path: '', message: 'the Host header or the path cannot be read' }
  return enterContext(context, () => problemResponse(invalid([fault])))
}

/**
 * Keeps a body that a parser of the host has read as `rawBody`, from which the listener reads then.
 *
 * @param read where the parser has stored the body: its bytes, or the parsed value
 */
export function keepReadBody(
  incoming: IncomingMessage,
  { rawBody, body }: { readonly rawBody?: unknown; readonly body?: unknown },
): void {
  const { headers } = incoming
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  if (!hasBody || !incoming.readableDidRead) return
  const read = rawBody ?? body
  if (read === undefined) throw new Error('the body was read before it came to Tenantry, and req.body does not have it')
  const text = typeof read === 'string' ? read : JSON.stringify(read)
  Object.assign(incoming, { rawBody: Buffer.isBuffer(read) ? read : Buffer.from(text) })
}
