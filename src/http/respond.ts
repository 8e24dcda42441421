/** Creates every response, with the request id and without caching. */

import type { StreamReply } from '../kernel/api/operation.ts'
import { currentContext, enterContext } from '../kernel/base/context.ts'
import { Deadline } from '../kernel/base/deadline.ts'
import type { Logger } from '../kernel/base/logger.ts'

type Headers = Readonly<Record<string, string>>

export const baseHeaders = (): Record<string, string> => {
  const { requestId } = currentContext()
  return {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(requestId ? { 'x-request-id': requestId } : {}),
  }
}

export const respond = (
  status: number,
  body: string | Uint8Array<ArrayBuffer> | null,
  headers: Headers = {},
): Response => new Response(body, { status, headers: { ...baseHeaders(), ...headers } })

export const respondJson = (status: number, body: unknown, headers: Headers = {}): Response =>
  respond(status, JSON.stringify(body), { 'content-type': 'application/json', ...headers })

export const respondHtml = (status: number, html: string, headers: Headers): Response =>
  respond(status, html, { 'content-type': 'text/html; charset=utf-8', ...headers })

/** The response to HEAD has no body. A stream has no reader then, so its source is ended here. */
export async function withoutBodyOfHead(request: Request, response: Response): Promise<Response> {
  if (request.method !== 'HEAD') return response
  await response.body?.cancel()
  return new Response(null, response)
}

/** nginx forwards events immediately. */
const UNBUFFERED = { 'x-accel-buffering': 'no' }

/** Responses that a host writes in chunks. */
const streams = new WeakSet<Response>()

export const isStream = (response: Response): boolean => streams.has(response)

/** Whether it is a stream of events. */
export const isEndless = ({ headers }: Response): boolean => headers.get('content-type') === 'text/event-stream'

/**
 * A streamed response, read at the pace of the client. An error before the first chunk is thrown and becomes a problem. A later error, or
 * a chunk of an export that takes longer than `idleMs`, is logged here, and the stream ends with an error without details.
 */
export async function respondStream(
  { contentType, fileName, chunks }: StreamReply,
  idleMs: number,
  log: Logger,
): Promise<Response> {
  const context = currentContext()
  const source = chunks[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  let first: IteratorResult<string> | undefined = await source.next()
  let isCancelled = false

  const next = async () => {
    if (fileName === undefined) return source.next()
    const deadline = new Deadline(idleMs, () => new Error(`no chunk within ${idleMs} ms`))
    return deadline.run(() => source.next()).finally(() => deadline.close())
  }
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      const { done, value } = first ?? (await next())
      first = undefined
      if (isCancelled) return
      if (done) controller.close()
      else controller.enqueue(encoder.encode(value))
    } catch (error) {
      log.error({ err: error }, 'a streamed response was aborted')
      controller.error(new Error('the response was aborted'))
    }
  }
  const cancel = async () => {
    isCancelled = true
    await source.return?.()
  }
  const body = new ReadableStream<Uint8Array>(
    { pull: (controller) => enterContext(context, () => pull(controller)), cancel },
    { highWaterMark: 0 },
  )
  const response = new Response(body, {
    headers: {
      ...baseHeaders(),
      'content-type': contentType,
      ...(fileName === undefined ? UNBUFFERED : { 'content-disposition': `attachment; filename="${fileName}"` }),
    },
  })
  streams.add(response)
  return response
}
