/**
 * Whether a server is there at all, without a session: PostgreSQL and its poolers answer a request for encryption with one byte,
 * before anybody has logged in and whatever else they are busy with.
 */
import { connect } from 'node:net'
import pg from 'pg'

/** SSLRequest: its length, and the number that stands in place of a version of the protocol. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** Rejects unless something is answered within `ms`. */
export function knock(url: string, ms: number): Promise<void> {
  const { host, port } = new pg.Client(url)
  return new Promise((resolve, reject) => {
    const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    const end = (error?: Error) => {
      clearTimeout(timer)
      socket.destroy()
      if (error) reject(error)
      else resolve()
    }
    const timer = setTimeout(() => end(new Error(`no answer within ${ms} ms`)), ms)
    socket.on('connect', () => socket.write(SSL_REQUEST))
    socket.on('data', () => end())
    socket.on('error', end)
    socket.on('close', () => end(new Error('the connection was closed')))
  })
}
