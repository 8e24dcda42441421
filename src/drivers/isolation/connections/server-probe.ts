/**
 * Probes a server without a session: PostgreSQL and its poolers respond to an SSLRequest with one byte, before
 * authentication and regardless of their load. Behind a pooler, the pooler is probed.
 */
import { connect } from 'node:net'
import pg from 'pg'

/** SSLRequest: its length, and a code instead of the protocol version. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

export type ProbeResult = 'responded' | 'refused' | 'timed out'

/** @param timeoutMs of the response; a refused connection, or a local error, is not a timeout */
export function probeServer(url: string, timeoutMs: number): Promise<ProbeResult> {
  const { host, port } = new pg.Client(url)
  return new Promise((resolve) => {
    const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    socket.unref()
    const end = (result: ProbeResult) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(result)
    }
    // If this process was busy, the response may have arrived already: it is read first.
    const timer = setTimeout(() => setImmediate(() => setImmediate(() => end('timed out'))), timeoutMs).unref()
    socket.on('connect', () => socket.write(SSL_REQUEST))
    socket.on('data', () => end('responded'))
    socket.on('error', () => end('refused'))
    socket.on('close', () => end('refused'))
  })
}
