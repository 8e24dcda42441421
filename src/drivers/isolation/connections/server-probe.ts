/**
 * Whether a server is unresponsive, without a session: PostgreSQL and its poolers answer a request for encryption with one byte,
 * before anybody has logged in and whatever else they are busy with. Behind a pooler it is the pooler that is asked.
 */
import { connect } from 'node:net'
import pg from 'pg'

/** SSLRequest: its length, and the number that stands in place of a version of the protocol. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

export type ProbeResult = 'responded' | 'refused' | 'timed out'

/** @param timeoutMs how long it may take; a refusal, or whatever this process could not do, is not a timeout */
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
    // A response may have been there for long, when it was this process that was busy: it is read first.
    const timer = setTimeout(() => setImmediate(() => setImmediate(() => end('timed out'))), timeoutMs).unref()
    socket.on('connect', () => socket.write(SSL_REQUEST))
    socket.on('data', () => end('responded'))
    socket.on('error', () => end('refused'))
    socket.on('close', () => end('refused'))
  })
}
