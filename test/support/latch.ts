/** Locks that a test holds while something else waits for them. */

import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database } from '../../src/kernel/database/database.ts'

/** Holds what these statements lock, in a transaction that ends when what this answers is called. */
export async function latch(url: string, ...statements: string[]): Promise<() => Promise<void>> {
  const database = new Database({ url, max: 1 }, createLogger({ level: 'silent' }))
  const held = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const session = database.session(async (client) => {
    for (const statement of ['begin', ...statements]) await client.query(statement)
    held.resolve()
    await released.promise
    await client.query('commit')
  })
  await Promise.race([held.promise, session])
  return async () => {
    released.resolve()
    await session
    await database.close()
  }
}

/** What makes the place with this locator waits. @param url of the database that it is made in */
export const latchImport = (url: string, locator: string) =>
  latch(url, `select pg_advisory_xact_lock(hashtextextended('${locator}', 1))`)
