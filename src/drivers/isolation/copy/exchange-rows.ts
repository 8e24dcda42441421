/**
 * Replaces the rows of a tenant in shared tables that cannot have rows of two of its locations (aside-schema.ts):
 *
 *   copyAside      the copy ─► its schema aside, while the tenant is in use
 *   exchangeRows   behind the fence, in one transaction: deleted rows ─► the schema of the location that is left ─►
 *                  rows of the entered location from its schema ─► keys and counts checked
 *
 * - Each deleted row is stored: one statement deletes and stores. A row that another role writes meanwhile is not lost.
 * - A location whose rows were stored before later migrations is copied through the staging schema, which migrates them.
 */
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { BackupIncompatible, type CopyDescription, type TenantCopy } from '../../../tenants/isolation/copy.ts'
import { type Imported, StorageExists, type TransferOptions } from '../../../tenants/isolation/driver.ts'
import { iterateTables } from '../catalog/iterate-tables.ts'
import { copiedColumns, isTenants, qualified, type StoredTable } from '../catalog/tables.ts'
import { markStorage } from '../migrations/migration-records.ts'
import { enteredOf, labelAside, type RowLocation } from '../row-security/locations.ts'
import { readingRows } from '../row-security/row-reader.ts'
import { assertNoOtherRows, type Shared, type Taken } from '../row-security/shared-tables.ts'
import { columnName, valueAs } from '../row-security/tenant-column.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { type Holding, LOADING, withSettings } from '../transactions/copy-session.ts'
import { asideSchemaOf, createAside, dropAside, readAside, recordAside, tablesAside } from './aside-schema.ts'
import { assertCompatible, withRows } from './compatibility.ts'
import { assertApplied, type RowStorage, readShared, stagingSchemaOf } from './copy-in-shared.ts'
import type { LoadOptions } from './copy-load.ts'
import { assertKeysFree, assertNoReferences, assertNoRows, type LockedRows } from './replaceable-rows.ts'
import { advanceSequences, assertSequencesInRange } from './sequences.ts'
import { assertStagedOnce, asWriter, from, insertAll, stage, takesRole } from './staging-schema.ts'
import { copyTableIn } from './table-in.ts'

const RETRY_AFTER_SECONDS = 1
const CHANGED_BY_TRIGGER = '27000'

/** Imports a copy beside the rows of the tenant. @param storage with the tenant's id as the label */
export async function copyAside(
  server: PostgresServer,
  storage: RowStorage,
  copy: TenantCopy,
  { signal, onPhase, assertNotAbandoned, hold }: TransferOptions & { readonly hold: Holding },
): Promise<Imported> {
  const { location, schema } = storage
  const stagingSchema = stagingSchemaOf(labelAside(location))
  onPhase?.('making')
  const reader = await server.owned((client) => hold(client, () => readingRows(client, schema, storage)))
  const taking = async (client: pg.ClientBase) => {
    await assertNotAbandoned?.()
    const shared = await readShared(client, { ...storage, stagingSchema, reader }, copy.description)
    const entered = await enteredOf(client, location)
    if (entered.locator === location.locator || (await readAside(client, location))) {
      throw StorageExists('The location for the copy already has rows; nothing was changed.')
    }
    if (entered.locator === '') await assertNoRows(client, shared)
    await assertNoReferences(client, shared, false)
    const isPassing = copy.description.migrations.length === shared.applied.length
    const load = isPassing ? loadAside : loadStaged
    const { description, ...taken } = await load(client, { ...shared, location }, copy, { onPhase, log: server.log })
    onPhase?.('indexing')
    for (const { name } of description.tables) {
      await client.query(`analyze ${qualified(asideSchemaOf(location), name)}`)
    }
    await assertKeysFree(client, { ...shared, location }, description)
    if (copy.description.isolation !== 'rowscope-pg') await assertSequencesInRange(client, schema, taken.sequences)
    await recordAside(client, location, description)
    return { shared, taken }
  }
  const { shared, taken } = await server.migrating(stagingSchema, taking, { hold })
  await server.owned((client) =>
    hold(client, () => advanceSequences(client, schema, taken.sequences, shared.stored.sequences, signal)),
  )
  return { migrations: shared.applied, rows: taken.rows }
}

type Placed = Shared & { readonly location: RowLocation }
type TakenAside = Taken & { readonly description: CopyDescription }

async function loadAside(
  client: pg.ClientBase,
  shared: Placed,
  copy: TenantCopy,
  { onPhase }: LoadOptions,
): Promise<TakenAside> {
  const { location, stored } = shared
  const { description } = copy
  assertCompatible(description, stored, true)
  const aside = asideSchemaOf(location)
  await createAside(client, shared, location, description)
  onPhase?.('loading')
  const rows = await withSettings(client, LOADING, () =>
    iterateTables(copy, ({ table, csv }) =>
      copyTableIn(client, { name: qualified(aside, table.name), isFreezing: false }, table, csv),
    ),
  )
  await assertNoOtherRows(client, { ...shared, stagingSchema: aside }, description.tables)
  const isOfTenant = ({ name }: { readonly name: string }) =>
    stored.tables.some((table) => table.name === name && isTenants(table))
  for (const { name } of description.tables.filter((table) => !isOfTenant(table))) {
    await client.query(`drop table ${qualified(aside, name)}`)
  }
  const tables = description.tables.filter(isOfTenant)
  await assertOwnRows(client, shared, tables)
  return { rows, sequences: description.sequences, description: { ...description, tables, sequences: [] } }
}

/** Separate storage does not know the given tenant column: its copies have the values. */
async function assertOwnRows(
  client: pg.ClientBase,
  { location, column, tenant }: Placed,
  tables: CopyDescription['tables'],
): Promise<void> {
  const isOther = `${columnName(column)} <> ${valueAs(column, tenant)}`
  for (const { name } of tables) {
    const { rows } = await client.query(
      `select exists (select from ${qualified(asideSchemaOf(location), name)} where ${isOther}) as any`,
    )
    if (!rows[0].any) continue
    throw BackupIncompatible(
      `Rows of the copy for the table "${name}" have another value than "${tenant}" in "${column.name}". Nothing was changed.`,
    )
  }
}

/** For a copy of earlier migrations. */
async function loadStaged(
  client: pg.ClientBase,
  shared: Placed,
  copy: TenantCopy,
  options: LoadOptions,
): Promise<TakenAside> {
  const { location, stagingSchema } = shared
  const { made, ...taken } = await stage(client, shared, copy, options)
  await assertStagedOnce(client, shared, made, copy)
  const description = await describe(client, shared, made.tables)
  await createAside(client, shared, location, description)
  await withSettings(client, LOADING, async () => {
    for (const table of made.tables.filter(isTenants)) {
      const names = namesOf(table)
      await client.query(
        `insert into ${qualified(asideSchemaOf(location), table.name)} ${columnsIn(names)} select ${names.join(', ')} from ${from(table, stagingSchema)}`,
      )
    }
  })
  await dropStaging(client, shared)
  return { ...taken, description }
}

const namesOf = (table: StoredTable): string[] => copiedColumns(table).map(({ name }) => pg.escapeIdentifier(name))
const columnsIn = (names: readonly string[]): string => (names.length > 0 ? `(${names.join(', ')})` : '')

async function describe(
  client: pg.ClientBase,
  { schema, migrator }: Shared,
  tables: readonly StoredTable[],
): Promise<CopyDescription> {
  const ran = await migrator.records(client, schema)
  return {
    engine: 'postgres',
    isolation: 'rowscope-pg',
    migrations: ran.map(({ name, checksum }) => ({ name, checksum })),
    tables: tables.filter(isTenants).map((table) => ({ name: table.name, columns: copiedColumns(table) })),
    sequences: [],
  }
}

async function dropStaging(client: pg.ClientBase, { migrator, stagingSchema }: Shared): Promise<void> {
  await migrator.forget(client, stagingSchema)
  await client.query(`drop schema ${pg.escapeIdentifier(stagingSchema)} cascade`)
}

/**
 * Returns false if the rows of the location were stored before later migrations, and `copy` is absent: nothing has
 * changed then.
 *
 * @param left locator of the entered location; empty if there is none
 * @param copy the rows of the location
 */
export async function exchange(
  client: pg.ClientBase,
  shared: Placed,
  left: string,
  { copy, log }: Pick<LoadOptions, 'log'> & { readonly copy?: TenantCopy | undefined },
): Promise<boolean> {
  const { location, stored, applied, tenant, reader } = shared
  const description = await readAside(client, location)
  if (!description) {
    throw new Error(`The storage location "${location.locator}" of the tenant "${tenant}" has no rows on the server`)
  }
  assertApplied(description.migrations, applied)
  if (!copy && description.migrations.length !== applied.length) return false
  if (!copy) assertCompatible(description, stored, true)
  const leaving = { tenantId: tenant, locator: left }
  await client.query(reader.names)
  const locked = await assertNoReferences(client, shared, true)
  if (left === '') await assertNoRows(client, shared)
  else await takeOut(client, shared, leaving, locked)
  const source = copy ? shared : { ...shared, stagingSchema: asideSchemaOf(location) }
  const tables = copy ? await staged(client, shared, copy, { log }) : tablesAside(description, stored)
  await withRights(client, source, () => insertAll(client, source, { tables }))
  await withRows(() => client.query('set constraints all immediate'))
  await assertCounts(client, source, tables)
  if (copy) await dropStaging(client, shared)
  else await dropAside(client, location)
  return true
}

async function staged(
  client: pg.ClientBase,
  shared: Shared,
  copy: TenantCopy,
  options: LoadOptions,
): Promise<readonly StoredTable[]> {
  await client.query(markStorage(shared.stagingSchema))
  return (await stage(client, shared, copy, options)).made.tables
}

/** Moves the rows of the entered location into its schema. Throws if rows of other tenants may refer to an unlocked row. */
async function takeOut(
  client: pg.ClientBase,
  shared: Placed,
  leaving: Parameters<typeof asideSchemaOf>[0],
  locked: LockedRows,
): Promise<void> {
  const { schema, stored, column, tenant } = shared
  const tables = stored.tables.filter(isTenants)
  const description = await describe(client, shared, tables)
  await createAside(client, shared, leaving, description)
  const aside = asideSchemaOf(leaving)
  const own = `${columnName(column)} = ${valueAs(column, tenant)}`
  const steps = tables.flatMap((table, index) => {
    const names = namesOf(table)
    return [
      `d${index} as (delete from ${from(table, schema)} where ${own} returning ${names.join(', ') || 'null'})`,
      `s${index} as (insert into ${qualified(aside, table.name)} ${columnsIn(names)} select ${names.join(', ')} from d${index})`,
    ]
  })
  if (steps.length > 0) {
    await withRights(client, { ...shared, stagingSchema: aside }, () =>
      asWriter(client, shared, () => deletion(client, `with ${steps.join(', ')} select`)),
    )
  }
  for (const [name, count] of locked) {
    const { rows } = await client.query(`select count(*)::float8 as rows from ${qualified(aside, name)}`)
    if (rows[0].rows !== count) throw written(name)
  }
  await recordAside(client, leaving, description)
}

async function deletion(client: pg.ClientBase, text: string): Promise<void> {
  try {
    await client.query(text)
  } catch (error) {
    if (sqlState(error) !== CHANGED_BY_TRIGGER) throw error
    throw BackupIncompatible(
      'Triggers change rows of the tenant while these are deleted. Allow the owner of the tables to disable triggers: ' +
        'grant set on parameter session_replication_role to that role. Nothing was changed.',
      { cause: error },
    )
  }
}

/** Lets the role of tenants' queries use a schema aside, if it writes the rows, until `work` ends. */
async function withRights(client: pg.ClientBase, shared: Shared, work: () => Promise<void>): Promise<void> {
  const [schema, role] = [pg.escapeIdentifier(shared.stagingSchema), pg.escapeIdentifier(shared.scopeRole)]
  if (!takesRole(shared)) return work()
  await client.query(
    `grant usage on schema ${schema} to ${role}; grant select, insert on all tables in schema ${schema} to ${role}`,
  )
  await work()
  await client.query(
    `revoke all on schema ${schema} from ${role}; revoke all on all tables in schema ${schema} from ${role}`,
  )
}

/** Throws if other rows are in the tables than were inserted: those of triggers, or of a role that the fence does not bind. */
async function assertCounts(
  client: pg.ClientBase,
  { schema, stagingSchema, stored, column, tenant }: Shared,
  tables: readonly StoredTable[],
): Promise<void> {
  const own = `${columnName(column)} = ${valueAs(column, tenant)}`
  for (const table of stored.tables.filter(isTenants)) {
    const source = tables.some(({ name }) => name === table.name)
      ? `(select count(*) from ${from(table, stagingSchema)})`
      : '0'
    const { rows } = await client.query(
      `select (select count(*) from ${from(table, schema)} where ${own}) = ${source} as same`,
    )
    if (rows[0].same) continue
    throw written(table.name)
  }
}

const written = (table: string) =>
  DependencyUnavailable(
    `Triggers, or another role than that of tenants, have written rows of the table "${table}" during the exchange. Nothing was changed.`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )
