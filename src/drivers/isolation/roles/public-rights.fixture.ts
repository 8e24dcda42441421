/** Opens two tenants on an installation of each driver, whose placement keeps some rights of PUBLIC. */
import { afterAll, beforeAll, inject } from 'vitest'
import type { Finding } from '../../../kernel/doctor/doctor.ts'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { IsolationDriver, PublicRight } from '../../../tenants/isolation/driver.ts'
import { locationsOf } from '../audit/audit.fixture.ts'
import { databasePg } from '../database-pg.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { schemaPg } from '../schema-pg.ts'
import { createInstallation, type Installation, provisioned } from './installation.fixture.ts'

const DRIVERS = { 'schema-pg': schemaPg, 'rowscope-pg': rowscopePg, 'database-pg': databasePg }
export type Kind = keyof typeof DRIVERS
export const kinds = Object.keys(DRIVERS) as Kind[]

export const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), owner text not null, primary key (tenant_id, owner));
    create sequence numbers`,
}

export const auditOf = (driver: IsolationDriver): Promise<Finding[]> =>
  Array.fromAsync(driver.audit(locationsOf(driver, ['a', 'b'])))

export async function openOn(installation: Installation, kind: Kind, publicRights: readonly PublicRight[] = []) {
  const placement = { ...(await installation.prepare()), publicRights }
  return installation.open(placement, { driver: () => DRIVERS[kind](), migrations: [NOTES] })
}

export function useInstallation(kind: Kind, publicRights: readonly PublicRight[] = []) {
  let installation: Installation
  let driver: IsolationDriver
  let handles: readonly StorageHandle[]
  beforeAll(async () => {
    installation = await createInstallation(inject('postgresUrl'), { connections: { max: 6, perTenant: 3 } })
    driver = await openOn(installation, kind, publicRights)
    handles = [await provisioned(driver, 'a'), await provisioned(driver, 'b')]
    for (const { id, pool } of handles) await pool.query('insert into notes (owner) values ($1)', [id])
  })
  afterAll(() => installation.end())
  return {
    get installation() {
      return installation
    },
    get driver() {
      return driver
    },
    get a() {
      return handles[0] as StorageHandle
    },
    get b() {
      return handles[1] as StorageHandle
    },
    audit: () => auditOf(driver),
  }
}
