/** The state of a connection, which node-postgres knows and its types leave out. */
import type pg from 'pg'

/** What node-postgres knows of a connection, and its types do not tell. */
interface ClientState {
  readonly readyForQuery: boolean
  readonly _queryable: boolean
  readonly _ending: boolean
  /** Of the server, as it was told when the connection was made. */
  readonly processID: number | null
  getTransactionStatus(): string | null
}
export const stateOf = (client: pg.ClientBase): ClientState => client as unknown as ClientState

export const isAlive = (client: pg.ClientBase): boolean => stateOf(client)._queryable && !stateOf(client)._ending

/** node-postgres tells an error when it hears of it, before the server has said which state the transaction is in. */
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
