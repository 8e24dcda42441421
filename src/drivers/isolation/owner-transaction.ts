/** Transactions of the owner, and the lock that makes one alone among all processes. */
import pg from 'pg'

/** The key of the lock of one storage, as SQL. */
export const lockOf = (locator: string): string => `hashtextextended(${pg.escapeLiteral(locator)}, 1)`

/** The lock time-out comes after the lock: who waits for another run finds it done. */
export const beginAlone = (locator: string, lockTimeoutMs: number): string =>
  `begin; select pg_advisory_xact_lock(${lockOf(locator)}); set local lock_timeout = ${Number(lockTimeoutMs)}`

/** Runs `work` in a transaction that `begin` has begun, and `last` with its commit; rolled back when it throws. */
export async function inTransaction<T>(
  client: pg.ClientBase,
  work: (opened: readonly pg.QueryResult[]) => Promise<T>,
  { begin = 'begin', last = [] }: { begin?: string; last?: readonly string[] } = {},
): Promise<T> {
  try {
    const opened = (await client.query(begin)) as unknown as pg.QueryResult | pg.QueryResult[]
    const result = await work([opened].flat())
    await client.query([...last, 'commit'].join(';\n'))
    return result
  } catch (error) {
    await client.query('rollback').catch((failure) => {
      throw new AggregateError([error, failure], 'the connection was lost in a transaction')
    })
    throw error
  }
}
