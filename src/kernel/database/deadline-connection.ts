/**
 * A connection of the backoffice for work with a deadline. When the deadline expires, the statement in progress is cancelled at the server
 * and the connection is closed, so that its open transaction cannot commit.
 *
 * - COMMIT is not sent after the deadline. A COMMIT, or a statement outside of a transaction, that was sent before may be executed later:
 *   `mayHaveCommitted` of the deadline records it.
 * - A stopped server receives the cancellation when it continues.
 */
import { connect, type Socket } from 'node:net'
import type pg from 'pg'
import type { Deadline } from '../base/deadline.ts'

/** Request code of a cancellation in the protocol of PostgreSQL, which takes no encryption. */
const CANCEL_REQUEST = 80_877_102
const CANCEL_REQUEST_BYTES = 16
const CANCEL_TIMEOUT_MS = 60_000
const READS = /^\s*(select|begin|start transaction|set|show)\b/i

/** The part of a client that the backoffice database uses. */
export interface Connection {
  query(query: any, values?: any): any
  release(error?: Error | boolean): void
}

/** @param client released if the deadline has expired */
export function connectionUntil(deadline: Deadline, client: pg.PoolClient): Connection {
  let running = 0
  let inTransaction = false
  let isClosed = false
  const close = () => {
    isClosed = true
    if (running > 0) cancelStatement(client)
    client.release(true) // the abandoned work may never release it
    socketOf(client).destroy()
  }
  try {
    deadline.assertOpen()
  } catch (error) {
    client.release()
    throw error
  }
  const unsubscribe = deadline.onExpiry(close)
  return {
    async query(query, values) {
      deadline.assertOpen()
      const text: string = query.text ?? query
      if (/^(begin|start transaction)\b/.test(text)) inTransaction = true
      else if (text === 'commit' || !(inTransaction || READS.test(text))) deadline.mayHaveCommitted = true
      running += 1
      try {
        return await client.query(query, values)
      } finally {
        running -= 1
      }
    },
    release(error) {
      unsubscribe()
      if (!isClosed) client.release(error)
    },
  }
}

/** Runs one statement, as the pool does: a connection with a failed statement is closed. */
export async function queryOnce(connection: Connection, query: pg.QueryConfig): Promise<{ rows: any[] }> {
  try {
    const result = await connection.query(query)
    connection.release()
    return result
  } catch (error) {
    connection.release(true)
    throw error
  }
}

/** Asks the server to cancel the statement of a client. The server accepts the request without an answer. */
function cancelStatement(client: pg.PoolClient): void {
  const { host, port, processID, secretKey } = client as pg.PoolClient & { processID: number; secretKey: number }
  const request = Buffer.alloc(CANCEL_REQUEST_BYTES)
  request.writeInt32BE(CANCEL_REQUEST_BYTES, 0)
  request.writeInt32BE(CANCEL_REQUEST, 4)
  request.writeInt32BE(processID, 8)
  request.writeInt32BE(secretKey, 12)
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
  socket.on('error', () => undefined) // an unreachable server runs no statement, or ends it with its connection
  socket.setTimeout(CANCEL_TIMEOUT_MS, () => socket.destroy())
  socket.unref().end(request)
}

export const socketOf = (client: pg.ClientBase): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream
