/**
 * A tenancy whose tenants are on a server behind a fault proxy, for the owner and the tenants' login; the backoffice is
 * not. Each tenant has a row with its id, and a sequence that counts statements, including those that were rolled back.
 */
import pg from 'pg'
import { expect } from 'vitest'
import { KINDS } from '../../src/drivers/isolation/proof/subject.fixture.ts'
import { ROWS_SCHEMA } from '../../src/drivers/isolation/rowscope-pg.ts'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import type { IsolationDriver, StorageLocation } from '../../src/tenants/isolation/driver.ts'
import { toLocation } from '../../src/tenants/registry/registry.ts'
import { type FakeClock, fakeClock } from '../../src/testing/base/clock.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { markOf, proofMigrations, type StorageView } from '../../src/testing/base/subject.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { raw } from '../../src/testing/leak/operations.ts'
import { itemsOf, Outside } from '../../src/testing/leak/operations-server.ts'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts'

const TENANTS = ['a', 'b', 'c']
/** Fewer than tenants, so that connections change tenants. */
const CONNECTIONS = 2
const PLACEMENT = 'elsewhere'

export interface TenancyEnvironment {
  readonly tenancy: TestTenancy<[]>['tenancy']
  readonly proxy: FaultProxy
  readonly driver: IsolationDriver
  readonly clock: FakeClock
  /** Reads the server without the proxy. */
  look(id: string): Promise<Held>
  locationOf(id: string): Promise<StorageLocation>
  /** Ends all sessions of the tenants' login, and waits until the tenancy has detected it. */
  endSessions(): Promise<void>
  close(): Promise<void>
}

/** State of a tenant on the server. */
export interface Held {
  /** Owner marker of each row. */
  readonly owners: readonly string[]
  /** Number of executions of statements that take a number. */
  readonly runs: number
}

export async function openTenancyEnvironment(serverUrl: string, kind: string): Promise<TenancyEnvironment> {
  const elsewhere = await createTestDatabase(serverUrl)
  const proxy = await startFaultProxy(serverUrl)
  const clock = fakeClock(new Date())
  const startMs = clock.now().getTime()
  const outside = new Outside()
  const make = KINDS[kind]?.make
  if (!make) throw new Error(`unknown kind "${kind}"`)
  const servers = await testTenancy(serverUrl, {
    isolation: [make()],
    migrations: proofMigrations('postgres'),
    placements: {
      [PLACEMENT]: {
        url: proxy.through(elsewhere.url),
        connections: { max: CONNECTIONS, perTenant: CONNECTIONS, waitMs: 2_000 },
      },
    },
    store: postgresStore({ clockOffsetMs: () => clock.now().getTime() - startMs }),
    clock,
  })
  const { tenancy } = servers
  for (const id of TENANTS) await installed(tenancy, { id, name: id, placement: PLACEMENT })
  for (const id of TENANTS) {
    const { db } = await tenancy.tenant(id)
    await raw(db, `insert into items (id, owner) values (0, '${markOf(id)}')`)
  }
  const locationOf = async (id: string) => toLocation(await tenancy.tenants.registry.row(id))
  const { isolation } = await locationOf('a')
  const driver = tenancy.tenants.storage.driver(isolation)
  const viewOf = async (id: string): Promise<StorageView> => viewAt(elsewhere.url, await locationOf(id))
  const { rows } = await tenancy.kernel.database.sql(
    'select login from multitenancy.placement_logins where placement = $1',
    [PLACEMENT],
  )
  return {
    tenancy,
    proxy,
    driver,
    clock,
    locationOf,
    async look(id) {
      const view = await viewOf(id)
      const own = view.tenantColumn === undefined ? [] : [view.tenantColumn]
      const [items, numbers] = [
        await outside.all(
          view,
          `select owner from ${itemsOf(view)} ${own[0] ? 'where tenant_id = $1' : ''} order by id`,
          own,
        ),
        await outside.all(
          view,
          `select case when is_called then last_value else 0 end::int as runs from ${pg.escapeIdentifier(view.schema)}.numbers`,
        ),
      ]
      return { owners: items.map(({ owner }) => owner), runs: numbers[0].runs }
    },
    async endSessions() {
      await outside.all(
        await viewOf('a'),
        'select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = any($1)',
        [[rows[0].login, ...(await Promise.all(TENANTS.map(locationOf))).map(({ locator }) => locator)]],
      )
      await eventually(() => expect(countOf(tenancy)).toMatchObject({ idle: 0, busy: 0 }))
    },
    async close() {
      await outside.close()
      if (driver.name === 'database-pg') for (const id of TENANTS) await driver.drop(await locationOf(id))
      await elsewhere.drop() // before the roles that have rights in it
      await servers.end()
      await proxy.close()
    },
  }
}

function viewAt(url: string, { isolation, locator }: StorageLocation): StorageView {
  const unscoped = { url, tenantUrl: url }
  if (isolation === 'rowscope-pg') return { ...unscoped, schema: ROWS_SCHEMA, tenantColumn: locator }
  if (isolation === 'schema-pg') return { ...unscoped, schema: locator }
  const own = new URL(url)
  own.pathname = `/${encodeURIComponent(locator)}`
  return { url: own.href, tenantUrl: own.href, schema: 'tenant' }
}

const countOf = (tenancy: TenancyEnvironment['tenancy']) =>
  tenancy.tenants.storage.connections().find(({ placement }) => placement === PLACEMENT)

/** Scope of a statement, queried on as many connections as there can be. */
const SCOPE = `select current_setting('app.tenant_id') as tenant, current_user = session_user as "isLogin", pg_sleep(0.002)`

/** State after every fault, checked with new handles. */
export async function expectWhole(environment: TenancyEnvironment): Promise<void> {
  const { tenancy, proxy, look } = environment
  await eventually(() => expect(countOf(tenancy)).toMatchObject({ busy: 0, waiting: 0 }))
  for (const id of TENANTS) {
    const tenant = await tenancy.tenant(id)
    expect(await ownersOf(tenant)).toEqual([markOf(id), ...(await look(id)).owners.slice(1)])
  }
  const asked = TENANTS.flatMap((id) => Array.from({ length: CONNECTIONS }, () => id)).map(async (id) => {
    const { db } = await tenancy.tenant(id)
    expect(await raw(db, SCOPE)).toMatchObject([{ tenant: id, isLogin: false }])
  })
  await Promise.all(asked)
  for (const id of TENANTS) for (const owner of (await look(id)).owners) expect(owner).toBe(markOf(id))
  expect(countOf(tenancy)).toMatchObject({ busy: 0, waiting: 0 })
  await eventually(() => expect(proxy.open).toBeLessThanOrEqual(CONNECTIONS + OWNERS))
}

/** Connections of the owner that migrations and fences of the setup have opened. */
const OWNERS = 16

export const ownersOf = async ({ db }: Pick<Tenant, 'db'>): Promise<string[]> =>
  (await raw(db, 'select owner from items order by id')).map(({ owner }) => owner)
