/** Makes the isolation drivers of the configuration: of its list, or of its record of options. */
import type { z } from 'zod'
import { databasePg } from '../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../drivers/isolation/sqlite/driver.ts'
import type { IsolationDriver } from '../tenants/isolation/driver.ts'
import type { Isolation } from './settings/isolation.ts'

const DRIVERS = {
  'schema-pg': schemaPg,
  'rowscope-pg': rowscopePg,
  'database-pg': databasePg,
  'sqlite-memory': (_options: object) => sqliteMemory(),
}

/** The driver of new tenants is the first, unless `defaultOf` names another one. */
export function isolationDrivers(settings: z.output<typeof Isolation>): IsolationDriver[] {
  if (!('length' in settings)) {
    const { drivers = {}, extensionsSchema } = settings
    return [
      schemaPg({ ...drivers['schema-pg'], extensionsSchema }),
      rowscopePg({ ...drivers['rowscope-pg'], extensionsSchema }),
      databasePg({ ...drivers['database-pg'], extensionsSchema }),
      ...(drivers['sqlite-memory'] ? [sqliteMemory()] : []),
    ]
  }
  return settings.map((one) => {
    if (typeof one === 'string') return DRIVERS[one]({})
    if (!('driver' in one)) return one
    const { driver, ...options } = one
    return DRIVERS[driver](options)
  })
}

export const defaultOf = (settings: z.output<typeof Isolation>): string | undefined =>
  'length' in settings ? undefined : settings.default
