/** Every answer of ours is made here: it carries the request id, and is not kept by anybody on the way. */
import { currentContext } from '../kernel/context.ts'

type Headers = Readonly<Record<string, string>>

const base = (): Record<string, string> => {
  const { requestId } = currentContext()
  return {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(requestId ? { 'x-request-id': requestId } : {}),
  }
}

export const respond = (status: number, body: string | null, headers: Headers = {}): Response =>
  new Response(body, { status, headers: { ...base(), ...headers } })

export const respondJson = (status: number, body: unknown, headers: Headers = {}): Response =>
  respond(status, JSON.stringify(body), { 'content-type': 'application/json', ...headers })

export const respondHtml = (status: number, html: string, headers: Headers): Response =>
  respond(status, html, { 'content-type': 'text/html; charset=utf-8', ...headers })

export const respondStream = (contentType: string, fileName: string, chunks: AsyncIterable<string>): Response =>
  new Response(ReadableStream.from(encoded(chunks)) as ReadableStream<Uint8Array>, {
    headers: { ...base(), 'content-type': contentType, 'content-disposition': `attachment; filename="${fileName}"` },
  })

async function* encoded(chunks: AsyncIterable<string>): AsyncIterable<Uint8Array> {
  const encoder = new TextEncoder()
  for await (const chunk of chunks) yield encoder.encode(chunk)
}
