/**
 * Lingering close: the client receives the response to a request whose body was not read to its end, a 413 for example.
 *
 *   response ready ──► written, with `connection: close` ──► rest of the body discarded ──► connection closed
 *                                                            at most 64 MiB and 30 s
 *
 * A connection that is closed while it has unread bytes is reset, and the client loses the response. Many clients read it only after they
 * have sent the whole body.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'

export const MAX_LINGERING_BYTES = 64 * 1024 * 1024
export const MAX_LINGERING_MS = 30_000

/** Call it when the response is ready and not written yet. Changes nothing if the whole body was received, or in HTTP/2. */
export function lingerOnClose(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (incoming.complete || incoming.httpVersionMajor !== 1 || outgoing.headersSent) return
  outgoing.shouldKeepAlive = false
  const { end } = outgoing
  outgoing.end = (...last: readonly unknown[]) => {
    outgoing.end = end
    // All of the response, but not its end, after which node closes the connection.
    const [chunk, encoding] = last
    if (typeof chunk === 'string')
      outgoing.write(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
    else if (chunk instanceof Uint8Array) outgoing.write(chunk)
    else outgoing.flushHeaders()
    const callback = last.find((one) => typeof one === 'function') as (() => void) | undefined
    if (incoming.readableEnded || incoming.destroyed) return outgoing.end(callback)
    discard(incoming, () => outgoing.end(callback))
    return outgoing
  }
}

/** Calls `done` once: at the end of the body, when the client is gone, or at a limit. */
function discard(incoming: IncomingMessage, done: () => void): void {
  let bytes = 0
  const stop = () => {
    clearTimeout(timer)
    incoming.off('end', stop).off('close', stop).off('data', count)
    incoming.resume()
    done()
  }
  const count = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_LINGERING_BYTES) stop()
  }
  const timer = setTimeout(stop, MAX_LINGERING_MS).unref()
  // A reader that has stopped, such as a web stream, would pause the body.
  incoming.removeAllListeners('data').removeAllListeners('readable')
  incoming.on('end', stop).on('close', stop).on('data', count)
  incoming.resume()
}
