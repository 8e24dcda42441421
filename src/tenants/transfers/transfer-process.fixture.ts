/** A process that carries out transfers, or writes notes, until it is killed. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'kysely'
import { serveParent } from '../../../test/support/child.ts'
import { directory } from '../../drivers/archives/directory.ts'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy, type Tenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { migrationsOf } from './kinds/restore-into-newer-schema.fixture.ts'

export interface ProcessOptions {
  readonly url: string
  readonly otherUrl: string
  readonly archives: string
}

export type ProcessCommand =
  | { readonly work: string }
  /** Writes notes with several concurrent writers until it is stopped. */
  | { readonly write: string; readonly as: string }
  | { readonly stop: true }

/** The outcome of each note: acknowledged, rejected, or unknown. */
export interface Written {
  readonly acknowledged: string[]
  readonly refused: string[]
  readonly unknown: string[]
}

const WRITERS = 4
const REFUSALS = /^(E_TENANT_MAINTENANCE|E_TENANT_STORAGE_FENCED|E_TENANT_CONNECTION_LIMIT|E_CIRCUIT_OPEN)$/

await serveParent(async ({ url, otherUrl, archives }: ProcessOptions) => {
  const connections = { max: 6, perTenant: 6 }
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), rowscopePg(), databasePg()],
    placements: { main: { connections }, other: { url: otherUrl, connections } },
    migrations: migrationsOf('all'),
    backups: { archives: directory({ path: archives }) },
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  const stopped = new AbortController()
  let writing: Promise<Written> | undefined
  return async (command: ProcessCommand) => {
    if ('work' in command) {
      return tenancy.tenants.transfers.work(command.work, { isLast: true, signal: new AbortController().signal })
    }
    if ('write' in command) {
      writing = write(tenancy, command.write, command.as, stopped.signal)
      return undefined
    }
    stopped.abort()
    return writing
  }
})

/** Half of the notes in single statements, half in transactions. */
async function write(tenancy: Tenancy, tenantId: string, as: string, signal: AbortSignal): Promise<Written> {
  const written: Written = { acknowledged: [], refused: [], unknown: [] }
  const writer = async (number: number) => {
    for (let count = 0; !signal.aborted; count++) {
      const text = `${as} ${number} ${count}`
      try {
        const { db, transaction } = await tenancy.tenant(tenantId)
        if (number % 2 === 0) await db.insertInto('notes').values({ text }).execute()
        else
          await transaction(async (inside) => {
            await inside.selectFrom('notes').select('text').limit(1).execute()
            await sql`select pg_sleep(0.02)`.execute(inside) // so that some transactions are always open
            await inside.insertInto('notes').values({ text }).execute()
          })
        written.acknowledged.push(text)
      } catch (error) {
        const { code = '' } = error as { code?: string }
        await nextTurn() // a rejection from the cache takes no time and would starve the event loop
        if (REFUSALS.test(code)) written.refused.push(text)
        else if (code === 'E_DEPENDENCY_UNAVAILABLE')
          written.unknown.push(text) // the session was terminated: the outcome is unknown
        else throw error
      }
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, (_, number) => writer(number)))
  return written
}
