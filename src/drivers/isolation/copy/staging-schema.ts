/**
 * Loads a copy into a staging schema with the tables of the copy, runs the later migrations of the shared tables on it,
 * and inserts the rows into the shared tables by one statement: foreign keys are checked at its end, in any order and
 * with cycles. An owner that row level security does not bind takes the role of tenants' queries, unless triggers are
 * disabled.
 */
import pg from 'pg'
import { BackupIncompatible, type CopyDescription, type TenantCopy } from '../../../tenants/isolation/copy.ts'
import {
  copiedColumns,
  existingIn,
  isTenants,
  qualified,
  type StoredColumn,
  type StoredSchema,
  type StoredTable,
} from '../catalog/tables.ts'
import { rightsIn } from '../roles/grants.ts'
import {
  assertNoOtherRows,
  checkForeignKeys,
  type ForeignKey,
  type Shared,
  sharedFacts,
  type Taken,
} from '../row-security/shared-tables.ts'
import { columnName, valueAs } from '../row-security/tenant-column.ts'
import { LOADING, type Settings, TRIGGERS_DISABLED, withSettings } from '../transactions/copy-session.ts'
import { assertCompatible, withRows } from './compatibility.ts'
import { type LoadOptions, loadCopy } from './copy-load.ts'
import { readSequences } from './sequences.ts'

/** The transaction also drops the schema. */
export async function loadViaStaging(
  client: pg.ClientBase,
  shared: Shared,
  copy: TenantCopy,
  options: LoadOptions,
): Promise<Taken> {
  const { made, ...taken } = await stage(client, shared, copy, options)
  await insertAll(client, shared, made)
  await assertStagedOnce(client, shared, made, copy)
  return taken
}

export interface Staged extends Taken {
  /** The tables of the staging schema, after the migrations. */
  readonly made: StoredSchema
}

/** Loads the copy into the staging schema, and runs the later migrations on it. */
export async function stage(
  client: pg.ClientBase,
  shared: Shared,
  copy: TenantCopy,
  { onPhase, log }: LoadOptions,
): Promise<Staged> {
  const { stagingSchema, searchPathOf, tenant, scopeRole, migrator, applied, column } = shared
  const searchPath = searchPathOf(stagingSchema)
  const copied = copy.description.migrations.map(({ name }) => name)
  const pending = applied.filter((name) => !copied.includes(name))
  const name = pg.escapeIdentifier(stagingSchema)
  await client.query(`create schema ${name}; ${rightsIn(name, pg.escapeIdentifier(scopeRole))}`)
  await migrator.installOnly(client, stagingSchema, searchPath, copied)
  const target = { schema: stagingSchema, searchPath, tenantId: tenant }
  const isPassing = pending.length === 0
  const known = isPassing ? [] : await othersOf(client, shared, copy)
  const { foreignKeys } = await sharedFacts(client, stagingSchema, column)
  const others = (name: string) => (known.some((table) => table.name === name) ? 'trusted' : 'gone')
  const rows = await loadCopy(client, target, copy, { onPhase, log, isPassing, others, column })
  for (const table of known) await fillReferred(client, shared, table, foreignKeys)
  onPhase?.('migrating')
  await migrator.installOnly(client, stagingSchema, searchPath, pending)
  const made = await existingIn(client, stagingSchema, searchPath, column)
  assertCompatible(describing(made), shared.stored)
  await assertOnlyTenantsRows(client, shared, made.tables)
  // Migrations may have taken values.
  const sequences = await (isPassing ? copy.description.sequences : readSequences(client, stagingSchema, made))
  return { rows, sequences, made }
}

/** Of tables that all tenants read, the staging schema may only have existing rows. */
export const assertStagedOnce = (
  client: pg.ClientBase,
  shared: Shared,
  made: StoredSchema,
  { description }: TenantCopy,
): Promise<void> => {
  const isPassing = description.migrations.length === shared.applied.length
  return assertNoOtherRows(client, shared, isPassing ? description.tables : sameOf(made, description))
}

/**
 * Tables that the copy does not have because all tenants share them, and whether they are unchanged since the copy. No
 * foreign key refers to a changed one before the rows are in the shared tables.
 */
async function othersOf(client: pg.ClientBase, shared: Shared, { description }: TenantCopy): Promise<StoredTable[]> {
  const { stagingSchema, searchPathOf, stored, column } = shared
  const { tables } = await existingIn(client, stagingSchema, searchPathOf(stagingSchema), column)
  return tables.filter((table) => {
    const now = stored.tables.find(({ name }) => name === table.name)
    const isSame = writable(table).every(({ name, type }) =>
      now?.columns.some((column) => column.name === name && column.type === type),
    )
    return now && isSame && !isTenants(now) && !description.tables.some(({ name }) => name === table.name)
  })
}

/** Migrations may refer to rows that were added to shared tables by hand. All other rows come from migrations. */
async function fillReferred(
  client: pg.ClientBase,
  { stagingSchema, schema }: Shared,
  table: StoredTable,
  foreignKeys: readonly ForeignKey[],
): Promise<void> {
  const referring = foreignKeys.filter(({ to }) => to === table.name)
  if (referring.length === 0) return
  const name = qualified(stagingSchema, table.name)
  const { rows } = await client.query(
    `select conname from pg_constraint where contype = 'f' and conrelid = $1::regclass`,
    [name],
  )
  for (const { conname } of rows)
    await client.query(`alter table ${name} drop constraint ${pg.escapeIdentifier(conname)}`)
  const columns = writable(table)
  const values = columns.map((column) => valueFor(column, stagingSchema))
  const referred = referring.map((key) => `exists (select from ${key.table} f where ${key.match})`)
  await client.query(`insert into ${name} (${columns.map((column) => pg.escapeIdentifier(column.name)).join(', ')}) overriding system value
    select ${values.join(', ')} from ${qualified(schema, table.name)} p where ${referred.join(' or ')} on conflict do nothing`)
}

/** Tables of the copy in their present form. */
const sameOf = (made: StoredSchema, description: CopyDescription) =>
  describing(made).tables.filter(({ name }) => description.tables.some((table) => table.name === name))

const describing = ({ tables, sequences }: StoredSchema): CopyDescription => ({
  engine: 'postgres',
  isolation: '',
  migrations: [],
  tables: tables.map((table) => ({ name: table.name, columns: copiedColumns(table) })),
  sequences: sequences.map(({ name }) => ({ name, lastValue: '0', isCalled: false })),
})

/** Inserts the rows of all tables of the staging schema as rows of the tenant. */
export async function insertAll(
  client: pg.ClientBase,
  shared: Shared,
  made: Pick<StoredSchema, 'tables'>,
): Promise<void> {
  const { tenant, facts, stored, column } = shared
  const tables = made.tables.filter(({ name }) =>
    stored.tables.some((table) => table.name === name && isTenants(table)),
  )
  if (tables.length === 0) return
  const inserts = tables.map((table, index) => `i${index} as (${insertOf(table, shared)})`)
  await asWriter(
    client,
    shared,
    () => withRows(() => client.query(`with ${inserts.join(', ')} select`)),
    async () => {
      if (facts.canDisableTriggers) await checkForeignKeys(client, facts, tenant, column)
      else if (facts.hasTriggers) await assertUnchanged(client, shared, tables)
    },
  )
}

/**
 * Runs `work` without triggers, or with those that run when the tenant itself writes.
 * @param check runs afterwards as the owner, with the same settings
 */
export async function asWriter(
  client: pg.ClientBase,
  shared: Shared,
  work: () => Promise<unknown>,
  check: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { tenant, searchPath, scopeRole, facts } = shared
  const [role, noRole] = takesRole(shared) ? [takes(scopeRole), takes('none')] : []
  const triggers: Settings = facts.canDisableTriggers ? TRIGGERS_DISABLED : {}
  const settings = { ...LOADING, search_path: searchPath, 'app.tenant_id': tenant, ...triggers }
  await withSettings(client, settings, async () => {
    if (role) await client.query(role)
    await work()
    if (noRole) await client.query(noRole)
    await check()
  })
}

/** Whether rows are written in the role of tenants' queries. */
export const takesRole = ({ reader, facts }: Pick<Shared, 'reader' | 'facts'>): boolean =>
  reader.isExempt && !facts.canDisableTriggers

const takes = (role: string): string => `select set_config('role', ${pg.escapeLiteral(role)}, true)`

function insertOf(table: StoredTable, { schema, stagingSchema, tenant, column }: Shared): string {
  const names = writable(table).map(({ name }) => pg.escapeIdentifier(name))
  const values = writable(table).map((one) => valueFor(one, schema))
  return `insert into ${qualified(schema, table.name)} (${[columnName(column), ...names].join(', ')}) overriding system value
    select ${[valueAs(column, tenant), ...values].join(', ')} from ${from(table, stagingSchema)}`
}

export const writable = ({ columns }: StoredTable): StoredColumn[] =>
  columns.filter(({ isGenerated, isFilled }) => !isGenerated && !isFilled)

/**
 * A type of the staging schema differs from the type of the same name in another schema: its values are converted
 * through text.
 */
function valueFor({ name, ownType }: StoredColumn, schema: string): string {
  const value = pg.escapeIdentifier(name)
  return ownType ? `${value}::text::${pg.escapeIdentifier(schema)}.${ownType}` : value
}

export const from = ({ name, isPartitioned }: StoredTable, schema: string): string =>
  `${isPartitioned ? '' : 'only '}${qualified(schema, name)}`

/** A migration may have created rows of any tenant. */
async function assertOnlyTenantsRows(
  client: pg.ClientBase,
  { stagingSchema, tenant, column }: Shared,
  tables: readonly StoredTable[],
) {
  const isOther = `${columnName(column)} <> ${valueAs(column, tenant)}`
  const each = tables
    .filter(isTenants)
    .map((table) => `exists (select from ${from(table, stagingSchema)} where ${isOther})`)
  const { rows } = await client.query(`select ${['false', ...each].join(' or ')} as any`)
  if (rows[0].any)
    throw BackupIncompatible('Migrations created rows of another tenant from the copy; nothing was changed.')
}

/** Throws if the stored rows differ from the inserted ones. */
async function assertUnchanged(
  client: pg.ClientBase,
  { schema, stagingSchema, tenant, column }: Shared,
  tables: readonly StoredTable[],
): Promise<void> {
  for (const table of tables) {
    const columns = copiedColumns(table).map(({ name }) => `${pg.escapeIdentifier(name)}::text`)
    const own = `${columnName(column)} = ${valueAs(column, tenant)}`
    const copied = `select ${columns.join(', ')} from ${from(table, stagingSchema)}`
    const there = `select ${columns.join(', ')} from ${from(table, schema)} where ${own}`
    const { rows } = await client.query(
      `select exists (${copied} except all ${there}) or exists (${there} except all ${copied}) as changed`,
    )
    if (!rows[0].changed) continue
    throw BackupIncompatible(
      `Triggers changed rows of the table "${table.name}" during the insert, so they differ from the copy. ` +
        'Allow the owner of the tables to disable triggers: grant set on parameter session_replication_role to that role.',
    )
  }
}
