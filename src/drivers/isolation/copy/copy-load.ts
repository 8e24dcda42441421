/**
 * Loads the rows of a copy into the tables of one schema, in a transaction of its owner with exclusive access:
 *
 *   compatible? ─► tables prepared and emptied ─► COPY, table by table ─► indexes, keys, triggers restored ─► sequences, views, statistics
 *
 * - The tables are emptied because the copy also contains the rows that migrations inserted. A table that the copy does
 *   not have keeps its rows: tables that all tenants share in one driver are filled by the migrations in the others.
 * - Rows are written frozen if PostgreSQL allows it: no other transaction sees the tables before the commit, so no
 *   later scan needs to check the visibility of the rows.
 * - A row that a constraint rejects is reported as `E_BACKUP_INCOMPATIBLE` with the constraint's name.
 */
import type pg from 'pg'
import type { Logger } from '../../../kernel/base/logger.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { TransferOptions } from '../../../tenants/isolation/driver.ts'
import { iterateTables, type Rows } from '../catalog/iterate-tables.ts'
import { all, existingIn, qualified, type StoredSchema } from '../catalog/tables.ts'
import { LOADING, withSettings } from '../transactions/copy-session.ts'
import { type BulkLoadOptions, planBulkLoad } from './bulk-load.ts'
import { assertCompatible, withRows } from './compatibility.ts'
import { refreshViews } from './materialized-views.ts'
import { setSequences } from './sequences.ts'
import { copyTableIn } from './table-in.ts'

export interface Target {
  readonly schema: string
  readonly searchPath: string
  /** The tenant of the rows. */
  readonly tenantId: string
}

export interface LoadOptions extends Pick<TransferOptions, 'onPhase'>, Omit<BulkLoadOptions, 'tenantId'> {
  readonly log: Pick<Logger, 'warn'>
}

export function loadCopy(client: pg.ClientBase, target: Target, copy: TenantCopy, options: LoadOptions): Promise<Rows> {
  const { schema, searchPath, tenantId } = target
  const settings = { ...LOADING, search_path: searchPath, 'app.tenant_id': tenantId }
  return withSettings(client, settings, async () => {
    const stored = await existingIn(client, schema, searchPath, options.column)
    assertCompatible(copy.description, stored, options.column?.isGiven)
    const result = await client.query(`select current_setting('transaction_isolation') as isolation`)
    const mayFreeze = result.rows[0].isolation === 'read committed' // The snapshot of a stricter level would not see the rows.
    const names = copy.description.tables.map(({ name }) => name)
    const plan = await planBulkLoad(client, schema, names, { ...options, tenantId })
    await all(client, ...plan.off, ...emptied(schema, names, stored))
    options.onPhase?.('loading')
    const rows = await iterateTables(copy, ({ table, csv }) => {
      const { name } = table
      const isFreezing = mayFreeze && !stored.tables.some((table) => table.name === name && table.isPartitioned)
      return copyTableIn(client, { name: qualified(schema, name), isFreezing }, table, csv)
    })
    options.onPhase?.('indexing')
    await withRows(() => all(client, ...plan.on))
    if (!options.isPassing) await finish(client, schema, copy, options.log)
    return rows
  })
}

/** A partitioned table has only the rows of its partitions. Any other table is emptied without its children. */
function emptied(schema: string, names: readonly string[], { tables }: StoredSchema): string[] {
  const each = tables
    .filter(({ name }) => names.includes(name))
    .map(({ name, isPartitioned }) => `${isPartitioned ? '' : 'only '}${qualified(schema, name)}`)
  return each.length > 0 ? [`truncate ${each.join(', ')}`] : []
}

async function finish(client: pg.ClientBase, schema: string, copy: TenantCopy, log: LoadOptions['log']): Promise<void> {
  await setSequences(client, schema, copy.description.sequences)
  await refreshViews(client, schema)
  await analyze(client, schema, copy, log)
}

/**
 * ANALYZE calls functions of indexes with a fixed search path, for which they may not be written: a failure is not an
 * error here.
 */
async function analyze(
  client: pg.ClientBase,
  schema: string,
  { description }: TenantCopy,
  log: LoadOptions['log'],
): Promise<void> {
  const names = description.tables.map(({ name }) => qualified(schema, name))
  if (names.length === 0) return
  await client.query('savepoint statistics')
  try {
    await client.query(`analyze ${names.join(', ')}`)
  } catch (error) {
    if (sqlState(error) === undefined) throw error
    await client.query('rollback to savepoint statistics')
    log.warn({ err: error }, 'could not analyze imported tables; autovacuum creates their statistics later')
  }
  await client.query('release savepoint statistics')
}
