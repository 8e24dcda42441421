/**
 * A tenancy with all PostgreSQL drivers, two placements and a directory for archives, for transfers.
 *
 *   const world = await openWorld(inject('postgresUrl'))
 *   await world.tenant('acme', { isolation: 'schema-pg' })
 *   await world.done(await world.transfers.move('acme', { placement: 'other' }))
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { directory } from '../../src/drivers/archives/directory.ts'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import type { AnySatellite, Satellite } from '../../src/tenancy/satellite.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy/tenancy.ts'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import type { TenantMigration } from '../../src/tenants/isolation/migrations.ts'
import type { Transfer } from '../../src/tenants/transfers/model/transfer.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { installed, testTenancy } from '../../src/testing/base/tenancy.ts'

export const ISOLATIONS = ['schema-pg', 'rowscope-pg', 'database-pg'] as const
const ENDED_WITHIN_MS = 60_000

/** The same tables for all PostgreSQL drivers. */
export const NOTES: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `create table notes (
        tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
        text text not null, primary key (tenant_id, id));
      create index notes_text on notes (tenant_id, text)`,
    down: 'drop table notes',
  },
]

export interface TestEnvironment<Satellites extends readonly AnySatellite[] = readonly Satellite[]> {
  readonly tenancy: Tenancy<Satellites>
  readonly transfers: Tenancy['tenants']['transfers']
  readonly url: string
  readonly otherUrl: string
  /** Directory of the archives. */
  readonly archives: string
  /** Starts another tenancy on the same database, as another process would. */
  open(options?: Partial<TenancyConfig<Satellites>>): Promise<Tenancy<Satellites>>
  /** Creates a tenant with these notes. */
  tenant(id: string, where?: { isolation?: string; placement?: string }, notes?: readonly string[]): Promise<Tenant>
  /** Waits for the end of a transfer; throws if it is not `completed`. */
  done(started: { transfer: Transfer } | { tenantId: string; id: string }): Promise<Transfer>
  /** Waits for the end of a transfer, successful or not. */
  ended(started: { transfer: Transfer } | { tenantId: string; id: string }): Promise<Transfer>
  notes(id: string): Promise<string[]>
  files(): Promise<string[]>
  end(): Promise<void>
}

/** @param otherServerUrl server of the placement `other`; by default the same server, with two databases */
export async function openTestEnvironment<const Satellites extends readonly AnySatellite[] = []>(
  serverUrl: string,
  options: Partial<TenancyConfig<Satellites>> = {},
  otherServerUrl = serverUrl,
): Promise<TestEnvironment<Satellites>> {
  const archives = await mkdtemp(join(tmpdir(), 'tenantry-archives-'))
  const other = await createTestDatabase(otherServerUrl)
  const connections = { max: 6, perTenant: 6 }
  const opened = await testTenancy<Satellites>(serverUrl, {
    migrations: NOTES,
    backups: { archives: directory({ path: archives }) },
    placements: { main: { connections }, other: { url: other.url, connections } },
    ...options,
    ...drivers(),
  })
  const { tenancy } = opened
  const { transfers } = tenancy.tenants
  const ended: TestEnvironment['ended'] = async (started) => {
    const { tenantId, id } = 'transfer' in started ? started.transfer : started
    const transfer = await transfers.settled(tenantId, id, AbortSignal.timeout(ENDED_WITHIN_MS))
    if (transfer.finishedAt === null) throw new Error(`the ${transfer.kind} has not ended: ${JSON.stringify(transfer)}`)
    return transfer
  }
  return {
    tenancy,
    transfers,
    url: opened.url,
    otherUrl: other.url,
    archives,
    open: (more = {}) => opened.open({ ...more, ...drivers() }),
    async tenant(id, where = {}, notes = ['first', 'second']) {
      await installed(tenancy, { id, name: id, ...where })
      const handle = await tenancy.tenant(id)
      for (const text of notes) await handle.db.insertInto('notes').values({ text }).execute()
      return handle
    },
    ended,
    async done(started) {
      const transfer = await ended(started)
      if (transfer.state !== 'completed') throw new Error(`the transfer ended as ${JSON.stringify(transfer)}`)
      return transfer
    },
    async notes(id) {
      const { db } = await tenancy.tenant(id)
      const rows = await db.selectFrom('notes').select('text').where('tenant_id', '=', id).orderBy('id').execute()
      return rows.map(({ text }) => text)
    },
    files: async () => (await readdir(archives, { recursive: true })).filter((name) => name.includes('/')),
    async end() {
      await Promise.all(opened.opened().map((one) => one.stop()))
      await other.drop()
      await opened.end()
      await rm(archives, { recursive: true, force: true })
    },
  }
}

/** New drivers, because a driver serves one tenancy. */
const drivers = () => ({ isolation: [schemaPg(), rowscopePg(), databasePg()] })
