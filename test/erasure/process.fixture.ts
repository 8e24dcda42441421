/** A process that carries out an erasure and ends after a step of it. */

import { directory } from '../../src/drivers/archives/directory.ts'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { serveParent } from '../support/child.ts'
import { NOTES } from '../support/two-servers.ts'

export interface ProcessOptions {
  readonly url: string
  readonly otherUrl: string
  readonly archives: string
}

export interface ProcessCommand {
  readonly work: string
  /** `placements found`, `archives removed` */
  readonly killAfter?: string
}

/** Short, so that the test does not wait for the lease of the killed process. */
const LEASE_MS = 1_000

await serveParent(async ({ url, otherUrl, archives }: ProcessOptions) => {
  const connections = { max: 4, perTenant: 4 }
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), rowscopePg(), databasePg()],
    placements: { main: { connections }, other: { url: otherUrl, connections } },
    migrations: NOTES,
    backups: { archives: directory({ path: archives }) },
    satellites: [auditLogs()],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  return ({ work, killAfter }: ProcessCommand) =>
    tenancy.tenants.erasures.work(work, {
      signal: new AbortController().signal,
      leaseMs: LEASE_MS,
      onStep(name, state) {
        if (`${name} ${state}` === killAfter) process.kill(process.pid, 'SIGKILL')
      },
    })
})
