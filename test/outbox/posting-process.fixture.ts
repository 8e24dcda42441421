/** A process that posts entries in tenants' transactions, and kills itself at a step of the outbox. */
import { setTimeout as sleep } from 'node:timers/promises'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { NOTES } from '../../src/tenants/outbox/outbox.fixture.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { serveParent } from '../support/child.ts'
import { COUNTED, type CountedSatellites, countedSatellites } from './counted.fixture.ts'

/** Steps of the diagram in outbox.ts, after which the process is killed. */
export type Step = 'posted' | 'committed' | 'applying' | 'applied' | 'relayed'

export type PostingCommand =
  | { readonly post: string; readonly n: number; readonly killAfter: Step }
  /** Posts until it is killed; a third of the transactions are rolled back. */
  | { readonly write: readonly string[]; readonly from: number }

const kill = () => process.kill(process.pid, 'SIGKILL')
/** Longer than any test: the process is killed before. */
const killed = () => sleep(600_000)

await serveParent(async ({ url }: { url: string }) => {
  const tenancy = await createTenancy<CountedSatellites>({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), rowscopePg(), databasePg()],
    placements: { main: { connections: { max: 6, perTenant: 6 } } },
    migrations: [NOTES],
    satellites: countedSatellites(),
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  const { outbox } = tenancy.tenants
  const { ledger: lines, kernel } = tenancy

  const note = async (tenantId: string, n: number, before: () => Promise<unknown> = async () => undefined) => {
    const tenant = await tenancy.tenant(tenantId)
    await tenant.transaction(async (db) => {
      await db.insertInto('notes').values({ id: n }).execute()
      await lines.add(tenantId, n)
      await tenancy.metrics.increment(tenantId, COUNTED)
      await before()
    })
  }
  const rolledBack = () => Promise.reject(new Error('rolled back'))
  const isRolledBack = (error: Error) => {
    if (error.message !== 'rolled back') throw error
  }

  return async (command: PostingCommand) => {
    if ('write' in command) {
      for (let n = command.from; ; n++) {
        const work = command.write.map((id) => note(id, n, n % 3 === 0 ? rolledBack : undefined).catch(isRolledBack))
        await Promise.all(work)
      }
    }
    const { post, n, killAfter } = command
    if (killAfter === 'committed') await outbox.stop()
    if (killAfter === 'applying') lines.onPosted = () => void kill()
    if (killAfter === 'applied') lines.onPosted = () => kernel.database.afterCommit(kill)
    await note(post, n, async () => {
      if (killAfter === 'posted') kill()
    })
    if (killAfter === 'committed') kill()
    if (killAfter === 'relayed') {
      await outbox.settled()
      kill()
    }
    return killed()
  }
})
