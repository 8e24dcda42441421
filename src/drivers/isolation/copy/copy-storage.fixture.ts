/**
 * Creates two installations on one server, each with all three PostgreSQL drivers over the same migrations, as ends of
 * copies.
 */
import pg from 'pg'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { databasePg, TENANT_SCHEMA } from '../database-pg.ts'
import {
  createInstallation,
  type Installation,
  type InstallationOptions,
  locationOf,
} from '../roles/installation.fixture.ts'
import { withDatabase } from '../roles/login-clients.ts'
import { ROWS_SCHEMA, rowscopePg } from '../rowscope-pg.ts'
import { schemaPg } from '../schema-pg.ts'

const MAKERS = { 'schema-pg': schemaPg, 'database-pg': databasePg, 'rowscope-pg': rowscopePg }
export type Kind = keyof typeof MAKERS
export const KINDS = Object.keys(MAKERS) as Kind[]

export interface CopyFixture {
  readonly installation: Installation
  readonly drivers: Readonly<Record<Kind, IsolationDriver>>
  readonly makers: typeof MAKERS
  /** A connection of the superuser to the rows of a location; sees all of them. */
  reach<T>(location: StorageLocation, work: (client: pg.Client, schema: string) => Promise<T>): Promise<T>
  end(): Promise<void>
}

export async function openCopyFixture(
  serverUrl: string,
  options: InstallationOptions & { readonly migrations: readonly TenantMigration[] },
): Promise<CopyFixture> {
  const installation = await createInstallation(serverUrl, options)
  const { ownerUrl } = options
  if (ownerUrl) {
    const owner = new URL(ownerUrl(installation.url)).username
    await installation.database.sql(
      `grant create on database ${new URL(installation.url).pathname.slice(1)} to ${owner}`,
    )
  }
  const placement = await installation.prepare()
  const open = (kind: Kind) =>
    installation.open(placement, { driver: () => MAKERS[kind](), migrations: options.migrations })
  const drivers = {
    'schema-pg': await open('schema-pg'),
    'database-pg': await open('database-pg'),
    'rowscope-pg': await open('rowscope-pg'),
  }
  return {
    installation,
    drivers,
    makers: MAKERS,
    async reach({ isolation, locator }, work) {
      const client = new pg.Client(
        isolation === 'database-pg' ? withDatabase(installation.url, locator) : installation.url,
      )
      await client.connect()
      try {
        return await work(
          client,
          { 'schema-pg': locator, 'database-pg': TENANT_SCHEMA, 'rowscope-pg': ROWS_SCHEMA }[isolation] ?? '',
        )
      } finally {
        await client.end()
      }
    },
    end: () => installation.end(),
  }
}

export const locationFor = (fixture: CopyFixture, kind: Kind, tenantId: string): StorageLocation =>
  locationOf(fixture.drivers[kind], tenantId)

export interface Owner {
  readonly name: string
  /** The URL with which the owner connects to the same database. */
  ownerUrl(url: string): string
  drop(): Promise<void>
}

/** Creates an owner that is not a superuser. */
export async function createOwner(serverUrl: string): Promise<Owner> {
  const name = `owner_${Math.random().toString(36).slice(2, 10)}`
  const admin = new pg.Client(serverUrl)
  await admin.connect()
  await admin.query(`create role ${name} login password 'p' createrole createdb`)
  return {
    name,
    ownerUrl: (url) => Object.assign(new URL(url), { username: name, password: 'p' }).href,
    async drop() {
      await admin
        .query(`drop owned by ${name}; drop role ${name}`)
        .catch(async () => admin.query(`drop role if exists ${name}`))
      await admin.end()
    },
  }
}

/** Creates an owner that is not a superuser. `work` receives a function for its URLs, and its name. */
export async function withOwner<T>(
  serverUrl: string,
  work: (ownerUrl: (url: string) => string, name: string) => Promise<T>,
): Promise<T> {
  const owner = await createOwner(serverUrl)
  try {
    return await work(owner.ownerUrl, owner.name)
  } finally {
    await owner.drop()
  }
}
