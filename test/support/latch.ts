/** Holds locks while other code waits for them. */

import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database } from '../../src/kernel/database/database.ts'

/** Runs the statements in a transaction, and returns a function that ends it. */
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

/** Blocks the provisioning of the storage with this locator. @param url database of the storage */
export const latchImport = (url: string, locator: string) =>
  latch(url, `select pg_advisory_xact_lock(hashtextextended('${locator}', 1))`)
