/** Transactions of the owner, and the lock that makes one alone among all processes. */
import pg from 'pg'

/** The key of the lock of one storage. @param locator as SQL */
export const lockOn = (locator: string): string => `hashtextextended(${locator}, 1)`

/** The same for a locator as it is. */
export const lockOf = (locator: string): string => lockOn(pg.escapeLiteral(locator))

/** The lock time-out comes after the lock: who waits for another run finds it done. */
export const beginAlone = (locator: string, lockTimeoutMs: number): string =>
  `begin; select pg_advisory_xact_lock(${lockOf(locator)}); set local lock_timeout = ${Number(lockTimeoutMs)}`

/** Runs `work` in a transaction that `begin` has begun; rolled back when it throws. */
export function inTransaction<T>(
  client: pg.ClientBase,
  work: (opened: readonly pg.QueryResult[]) => Promise<T>,
  { begin = 'begin' }: { begin?: string } = {},
): Promise<T> {
  return orRollback(client, async () => {
    const opened = (await client.query(begin)) as unknown as pg.QueryResult | pg.QueryResult[]
    const result = await work([opened].flat())
    await client.query('commit')
    return result
  })
}

/** For `work` that begins and commits by itself: when it throws, no transaction is left open. */
export async function orRollback<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await client.query('rollback').catch((failure) => {
      throw new AggregateError([error, failure], 'the connection was lost in a transaction')
    })
    throw error
  }
}
