/** Tenancies of a walk: all drivers on one database, with an adjustable clock. */
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../src/drivers/isolation/sqlite/driver.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { satellitesOn } from '../../src/service/main.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import { createTenancy, type Role, type Tenancy } from '../../src/tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { migrations } from './notes.ts'

export interface TenancyOptions {
  readonly url: string
  readonly role: Role
  readonly offsetMs: () => number
  /** Whether tenants may have storage in the memory of this process. */
  readonly hasMemory: boolean
}

export const openTenancy = ({ url, role, offsetMs, hasMemory }: TenancyOptions): Promise<Tenancy> =>
  createTenancy<readonly Satellite[]>({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), rowscopePg(), databasePg(), ...(hasMemory ? [sqliteMemory()] : [])],
    placements: { main: { connections: { max: 6, perTenant: 4, waitMs: 30_000 } } },
    migrations,
    satellites: satellitesOn({ satellites: {} }),
    // An open circuit would reject actions that the model permits; circuits have separate tests.
    circuit: { minimumCalls: 100_000 },
    // An action runs the daily job, in a process that runs no other jobs, so that it does not run between rounds.
    tenants: { autoPurge: role === 'api' },
    role,
    clock: { now: () => new Date(Date.now() + offsetMs()) },
    logger: createLogger({ level: process.env.LOG_LEVEL ?? 'silent' }),
  })
