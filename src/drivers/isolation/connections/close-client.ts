/** Closes connections with a timeout, so that an unresponsive server does not delay it. */
import type pg from 'pg'
import { socketOf } from '../../../kernel/database/deadline-connection.ts'

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
