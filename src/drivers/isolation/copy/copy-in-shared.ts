/**
 * Imports a copy into tables that all tenants of a placement share, in one transaction of their owner: a killed import
 * changes nothing.
 *
 * - Rows pass through a staging schema (staging-schema.ts), or COPY writes them directly (`isDirect`).
 * - Migrations of the placement wait for the import: otherwise they would wait for its table locks and block all
 *   queries.
 * - The lock of the rows prevents two concurrent imports of one copy.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { BackupIncompatible, type CopyDescription, type TenantCopy } from '../../../tenants/isolation/copy.ts'
import { type Imported, StorageExists, type TransferOptions } from '../../../tenants/isolation/driver.ts'
import { iterateTables } from '../catalog/iterate-tables.ts'
import { all, existingIn, isTenants, qualified } from '../catalog/tables.ts'
import { labelOf, type RowLocation } from '../row-security/locations.ts'
import { type RowReader, rowReader } from '../row-security/row-reader.ts'
import {
  checkForeignKeys,
  type Shared,
  type SharedStorage,
  sharedFacts,
  type Taken,
} from '../row-security/shared-tables.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { type Holding, LOADING, TRIGGERS_DISABLED, withSettings } from '../transactions/copy-session.ts'
import { lockOf } from '../transactions/owner-transaction.ts'
import { assertCompatible, withRows } from './compatibility.ts'
import type { LoadOptions } from './copy-load.ts'
import { advanceSequences, assertSequencesInRange } from './sequences.ts'
import { loadViaStaging } from './staging-schema.ts'
import { copyTableIn } from './table-in.ts'

const LOCK_TIMEOUT_MS = 10_000
const RETRY_AFTER_SECONDS = 1

export interface RowStorage extends SharedStorage {
  readonly location: RowLocation
}

export async function copyInRows(
  server: PostgresServer,
  storage: RowStorage,
  copy: TenantCopy,
  { signal, onPhase, assertNotAbandoned, hold }: TransferOptions & { readonly hold: Holding },
): Promise<Imported> {
  const stagingSchema = stagingSchemaOf(storage.tenant)
  onPhase?.('making')
  const reader = await server.owned((client) => hold(client, () => rowReader(client, storage.schema, storage)))
  const taking = async (client: pg.ClientBase) => {
    await assertNotAbandoned?.()
    const shared = await found(client, { ...storage, stagingSchema, reader }, copy)
    const load = isDirect(shared, copy) ? loadDirectly : loadViaStaging
    const taken = await load(client, shared, copy, { onPhase, log: server.log })
    if (copy.description.isolation !== 'rowscope-pg')
      await assertSequencesInRange(client, storage.schema, taken.sequences)
    await withRows(() => client.query('set constraints all immediate'))
    await storage.migrator.forget(client, stagingSchema)
    await client.query(`drop schema if exists ${pg.escapeIdentifier(stagingSchema)} cascade`)
    return { shared, taken }
  }
  const { shared, taken } = await server.migrating(stagingSchema, taking, { hold })
  await server.owned((client) =>
    hold(client, () => advanceSequences(client, storage.schema, taken.sequences, shared.stored.sequences, signal)),
  )
  return { migrations: shared.applied, rows: taken.rows }
}

/** A name of at most 63 bytes that no tenant's storage has. It also names the lock of the tenant's rows. */
export const stagingSchemaOf = (tenant: string): string =>
  `tenantry_scratch_${createHash('sha256').update(tenant).digest('hex').slice(0, 32)}`

/** The tenant must have no rows: they would be mixed with the copy. */
async function found(client: pg.ClientBase, storage: StagedStorage, copy: TenantCopy): Promise<Shared> {
  const { schema, tenant, location } = storage
  const shared = await readShared(client, storage, copy.description)
  await assertSameLabel(client, location, tenant)
  const any = shared.stored.tables
    .filter(isTenants)
    .map(({ name }) => `exists (select from ${qualified(schema, name)} where tenant_id = $1)`)
  const { rows } = await client.query(`select ${['$1::text is null', ...any].join(' or ')} as any`, [tenant])
  if (rows[0].any) throw StorageExists('The location for the copy already has rows; nothing was changed.')
  return shared
}

export type StagedStorage = RowStorage & { readonly stagingSchema: string; readonly reader: RowReader }

/** Locks out migrations and reads the present state. Throws if the tables lack migrations of the copy. */
export async function readShared(
  client: pg.ClientBase,
  storage: StagedStorage,
  { migrations }: Pick<CopyDescription, 'migrations'>,
): Promise<Shared> {
  const { schema, migrator, reader, column } = storage
  const searchPath = storage.searchPathOf(schema)
  await all(
    client,
    'set local lock_timeout = 0', // a migration may take its time
    `select pg_advisory_xact_lock_shared(${lockOf(schema)})`,
    `set local lock_timeout = ${LOCK_TIMEOUT_MS}`,
    ...(reader.isExempt ? [reader.names] : reader.statements),
  )
  const applied = await migrator.applied(client, schema)
  assertApplied(migrations, applied)
  const stored = await existingIn(client, schema, searchPath, column)
  return { ...storage, searchPath, stored, facts: await sharedFacts(client, schema, column), applied }
}

/** Throws if the tables lack migrations of the copy. */
export function assertApplied(migrations: CopyDescription['migrations'], applied: readonly string[]): void {
  const lacking = migrations.filter(({ name }) => !applied.includes(name))
  if (lacking.length === 0) return
  const names = lacking.map(({ name }) => name).join(', ')
  throw BackupIncompatible(`The tables of the placement lack migrations of the copy: ${names}.`)
}

/** Throws if the label of the location's rows has changed. */
export async function assertSameLabel(client: pg.ClientBase, location: RowLocation, label: string): Promise<void> {
  if ((await labelOf(client, location)) === label) return
  throw DependencyUnavailable('Another transfer has changed the location of the tenant’s rows. Try again.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
}

/**
 * Whether row level security does not bind the owner, triggers can be disabled, and the copy has only rows of these
 * tables: no rows of tables that all tenants read, and no rows that a migration would change.
 */
function isDirect({ reader, facts, applied, stored }: Shared, { description }: TenantCopy): boolean {
  const own = stored.tables.filter(isTenants).map(({ name }) => name)
  return (
    reader.isExempt &&
    facts.canDisableTriggers &&
    description.migrations.length === applied.length &&
    description.tables.every(({ name }) => own.includes(name))
  )
}

/** The default of `tenant_id` is the tenant. */
function loadDirectly(
  client: pg.ClientBase,
  { schema, searchPath, tenant, stored, facts, column }: Shared,
  copy: TenantCopy,
  { onPhase }: LoadOptions,
): Promise<Taken> {
  assertCompatible(copy.description, stored)
  const settings = { ...LOADING, search_path: searchPath, 'app.tenant_id': tenant, ...TRIGGERS_DISABLED }
  return withSettings(client, settings, async () => {
    onPhase?.('loading')
    const rows = await iterateTables(copy, ({ table, csv }) =>
      copyTableIn(client, { name: qualified(schema, table.name), isFreezing: false }, table, csv),
    )
    onPhase?.('indexing')
    await checkForeignKeys(client, facts, tenant, column)
    return { rows, sequences: copy.description.sequences }
  })
}
