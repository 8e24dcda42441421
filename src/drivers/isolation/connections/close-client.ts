/** The end of a connection, which an unresponsive server must not hold up. */
import type { Socket } from 'node:net'
import type pg from 'pg'

/** For the server to answer a goodbye, before the socket is closed all the same. */
const END_MS = 5_000

export async function goodbye(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => socketOf(client).destroy(), END_MS)
  try {
    await client.end()
  } finally {
    clearTimeout(timer)
  }
}

/** At once; what waits for an answer fails with `error`. */
export const cut = (client: pg.ClientBase, error: Error): void => void socketOf(client).destroy(error)

const socketOf = (client: pg.ClientBase): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream
