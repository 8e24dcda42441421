/** Makes the isolation drivers of the configuration. */
import type { z } from 'zod'
import { databasePg } from '../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../drivers/isolation/sqlite/driver.ts'
import type { IsolationDriver } from '../tenants/isolation/driver.ts'
import type { Isolation } from './settings/isolation.ts'

/** The driver of new tenants first, unless the configuration names another one. */
export function isolationDrivers({ drivers = {}, extensionsSchema }: z.output<typeof Isolation>): IsolationDriver[] {
  return [
    schemaPg({ ...drivers['schema-pg'], extensionsSchema }),
    rowscopePg({ ...drivers['rowscope-pg'], extensionsSchema }),
    databasePg({ ...drivers['database-pg'], extensionsSchema }),
    ...(drivers['sqlite-memory'] ? [sqliteMemory()] : []),
  ]
}
