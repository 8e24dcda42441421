/** Opens an installation with the role of a former application, for tests of adoptions. */
import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import type { AdoptionRequest, DriverAdoption, StoragePlan } from '../../../tenants/isolation/adoption.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { createInstallation, type Installation, type InstallationOptions } from '../roles/installation.fixture.ts'
import { type LegacyApplication, rightsOf } from './legacy-schemas.fixture.ts'

export const quoted = (name: string): string => pg.escapeIdentifier(name)

export interface Legacy {
  readonly installation: Installation
  readonly driver: IsolationDriver
  readonly adoption: DriverAdoption
  /** Role of the former application. */
  readonly role: string
  sql(text: string): Promise<any[]>
  /** Runs statements as the former application. */
  asApplication(schema: string, text: string): Promise<unknown>
  rights(schema: string): Promise<unknown>
  plan(schema: string, options?: Partial<AdoptionRequest>): Promise<StoragePlan>
  adopt(schema: string, options?: Partial<AdoptionRequest>): Promise<StorageLocation>
  audit(schema: string): Promise<unknown[]>
  end(): Promise<void>
}

export const locationOf = (locator: string, tenantId = 'acme'): StorageLocation => ({
  tenantId,
  isolation: 'schema-pg',
  placement: 'main',
  locator,
  epoch: 1,
})

export async function openLegacy(
  migrations: LegacyApplication['migrations'],
  options: InstallationOptions = {},
): Promise<Legacy> {
  const installation = await createInstallation(inject('postgresUrl'), { migrations, ...options })
  const placement = await installation.prepare()
  const driver = await installation.open(placement)
  const { adoption } = driver
  if (!adoption) throw new Error('schema-pg does not adopt')
  const role = `legacy_${randomBytes(4).toString('hex')}`
  const baseline = migrations.slice(0, -1).map(({ name }) => name)
  const sql = (text: string) => installation.database.session(async (client) => (await client.query(text)).rows)
  await sql(`create role ${role} login password 'legacy'`)
  const plan: Legacy['plan'] = (schema, more) =>
    adoption.plan({ location: locationOf(schema), baseline, acceptDifferences: [], ...more })
  return {
    installation,
    driver,
    adoption,
    role,
    sql,
    async asApplication(schema, text) {
      const url = new URL(installation.url)
      url.username = role
      url.password = 'legacy'
      const client = new pg.Client({ connectionString: url.href })
      await client.connect()
      try {
        return await client.query(`set search_path = ${quoted(schema)}; ${text}`)
      } finally {
        await client.end()
      }
    },
    rights: (schema) => rightsOf(installation.database, schema),
    plan,
    async adopt(schema, more = {}) {
      const request = { location: locationOf(schema), baseline, acceptDifferences: [], ...more }
      const { digest } = await plan(schema, more)
      await adoption.adopt(request, { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined })
      return request.location
    },
    async audit(schema) {
      const one = (async function* () {
        yield locationOf(schema)
      })()
      return (await Array.fromAsync(driver.audit(one))).filter(({ severity }) => severity !== 'info')
    },
    async end() {
      await sql(`drop owned by ${role} cascade`)
      await installation.end()
      const server = new pg.Client({ connectionString: inject('postgresUrl') })
      await server.connect()
      await server.query(`drop role ${role}`)
      await server.end()
    },
  }
}
