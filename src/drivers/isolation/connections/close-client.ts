/** Closes connections with a timeout, so that an unresponsive server does not delay it. */
import type { Socket } from 'node:net'
import type pg from 'pg'

/** Time for the server to close the connection, before the socket is destroyed. */
const CLOSE_TIMEOUT_MS = 5_000

export async function closeClient(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => socketOf(client).destroy(), CLOSE_TIMEOUT_MS)
  try {
    await client.end()
  } finally {
    clearTimeout(timer)
  }
}

/** Destroys the socket immediately; pending queries fail with `error`. */
export const destroyClient = (client: pg.ClientBase, error: Error): void => void socketOf(client).destroy(error)

const socketOf = (client: pg.ClientBase): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream
