/** Runs transactions of the owner, with a lock for exclusive access among all processes. */
import pg from 'pg'

/** The key of the lock of one storage. @param locator as SQL */
export const lockOn = (locator: string): string => `hashtextextended(${locator}, 1)`

/** The same for an unquoted locator. */
export const lockOf = (locator: string): string => lockOn(pg.escapeLiteral(locator))

/** The lock timeout is set after the lock: a process that waits for another run finds it done. */
export const beginAlone = (locator: string, lockTimeoutMs: number): string =>
  `begin; select pg_advisory_xact_lock(${lockOf(locator)}); set local lock_timeout = ${Number(lockTimeoutMs)}`

export interface TransactionOptions<T> {
  readonly begin?: string
  /** Calls `commit`, for example inside a transaction of another database; otherwise the transaction is rolled back. */
  readonly finish?: ((result: T, commit: () => Promise<void>) => Promise<void>) | undefined
  /** Statements before the commit, in its round trip. */
  readonly last?: ((result: T) => string) | undefined
}

/** Runs `work` in a transaction that `begin` has begun. Rolls back on an error. */
export function inTransaction<T>(
  client: pg.ClientBase,
  work: (opened: readonly pg.QueryResult[]) => Promise<T>,
  { begin = 'begin', finish = (_, commit) => commit(), last }: TransactionOptions<T> = {},
): Promise<T> {
  return orRollback(client, async () => {
    const opened = (await client.query(begin)) as unknown as pg.QueryResult | pg.QueryResult[]
    const result = await work([opened].flat())
    let isCommitted = false
    await finish(result, async () => {
      await client.query(last ? `${last(result)}; commit` : 'commit')
      isCommitted = true
    })
    if (!isCommitted) await client.query('rollback')
    return result
  })
}

/** For `work` that begins and commits its own transaction: leaves no transaction open on an error. */
export async function orRollback<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await client.query('rollback').catch((failure) => {
      throw new AggregateError([error, failure], 'The connection was lost in a transaction')
    })
    throw error
  }
}
