/** Reads the state of a connection, which the types of node-postgres leave out. */
import type pg from 'pg'

interface ClientState {
  readonly readyForQuery: boolean
  readonly _queryable: boolean
  readonly _ending: boolean
  /** Process id of the session, as reported by the server when the connection was opened. */
  readonly processID: number | null
  getTransactionStatus(): string | null
}
export const stateOf = (client: pg.ClientBase): ClientState => client as unknown as ClientState

export const isAlive = (client: pg.ClientBase): boolean => stateOf(client)._queryable && !stateOf(client)._ending

/**
 * Waits until the state of the transaction is known: node-postgres reports an error before the server has sent the
 * state.
 */
export async function ready(client: pg.ClientBase): Promise<void> {
  if (stateOf(client).readyForQuery || !isAlive(client)) return
  await new Promise<void>((resolve) => {
    const done = () => {
      client.off('drain', done)
      client.off('error', done)
      client.off('end', done)
      resolve()
    }
    client.once('drain', done)
    client.once('error', done)
    client.once('end', done)
  })
}
