/**
 * Node's request and response, to our fetch and back: what every host on node:http shares.
 *
 * @hono/node-server builds the Request lazily and writes whole answers. Streams are written here: at the reader's pace, and
 * never ended as if whole when they broke off. A client that goes away aborts `request.signal` and ends the stream's source.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream as NodeReadableStream } from 'node:stream/web'
import { getRequestListener } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { enterContext } from '../../kernel/base/context.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { ANONYMOUS, type Mountable } from '../app.ts'
import { problemResponse } from '../problem.ts'
import { isStream } from '../respond.ts'
import { lingerOnClose } from './lingering-close.ts'

const DOT_SEGMENT = /\/(\.|%2e)/i

export interface RequestHandlerOptions {
  /** The client's address; default: the connection's. */
  readonly ip?: string | undefined
  /** Replaces the process's `Request` and `Response` by lighter ones, for a process that is all ours; default false. */
  readonly lightGlobals?: boolean
}

/** Answers one request of node:http, whatever its path. */
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
      await send(response, outgoing)
      // A clone, because only one of the platform's own class is known for what it is once the globals are replaced.
      return RESPONSE_ALREADY_SENT.clone()
    },
    { overrideGlobalObjects: lightGlobals, hostname: 'localhost', errorHandler: () => unreadable(incoming, outgoing) },
  )
  listen(incoming, outgoing).catch((error) => outgoing.destroy(error))
}

/** The path of a request target, as it will stand in the Request's URL: dot segments are resolved there. */
export function pathnameOf(target: string): string {
  const isAbsolute = /^https?:\/\//i.test(target)
  const path = isAbsolute ? target : (target.split(/[?#]/, 1)[0] ?? '')
  if (!isAbsolute && !DOT_SEGMENT.test(path)) return path
  const url = isAbsolute ? path : `http://localhost${path}`
  return URL.canParse(url) ? new URL(url).pathname : path
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  const body = Readable.fromWeb(response.body as NodeReadableStream)
  // What failed is logged where the stream was made; here the connection is destroyed, which tells the client.
  await pipeline(body, outgoing).catch(() => undefined)
}

/** The answer when not even a Request can be made: the Host header or the target is no part of a URL. */
function unreadable(incoming: IncomingMessage, outgoing: ServerResponse): Response {
  lingerOnClose(incoming, outgoing)
  const context = { requestId: randomUUID(), actor: ANONYMOUS, ip: null }
  const fault = { path: '', message: 'the Host header or the path cannot be read' }
  return enterContext(context, () => problemResponse(invalid([fault])))
}
