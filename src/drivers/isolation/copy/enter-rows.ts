/**
 * Enters a location: gives its rows the tenant's id, and those of the formerly entered location a label, in one
 * transaction behind the fence of the tenant. An owner that may disable triggers updates the rows. Any other owner
 * deletes them and inserts them through a staging schema, as an import does (staging-schema.ts). Tables with a given tenant
 * column cannot have such labels: their rows are exchanged with those of a schema aside (exchange-rows.ts).
 */
import pg from 'pg'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { existingIn, isTenants, qualified } from '../catalog/tables.ts'
import { rightsIn } from '../roles/grants.ts'
import { fence, unfence, withoutForce, withRowsOf } from '../row-security/apply.ts'
import { deleteTenantRows } from '../row-security/delete-rows.ts'
import { enteredOf, labelAside, recordEntry } from '../row-security/locations.ts'
import { readingRows, rowReader } from '../row-security/row-reader.ts'
import { type Shared, sharedFacts } from '../row-security/shared-tables.ts'
import { ONE_TENANT } from '../row-security/sql.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { type Holding, LOADING, TRIGGERS_DISABLED, withSettings } from '../transactions/copy-session.ts'
import { lockOf } from '../transactions/owner-transaction.ts'
import { dropAside, sourceAside } from './aside-schema.ts'
import { withRows } from './compatibility.ts'
import { type RowStorage, stagingSchemaOf } from './copy-in-shared.ts'
import { copyOut } from './copy-out.ts'
import { exchange } from './exchange-rows.ts'
import { from, insertAll, writable } from './staging-schema.ts'

/** Returns false if a newer location of the tenant is in use. @param storage with the tenant's id as the label */
export async function enterRows(
  server: PostgresServer,
  storage: RowStorage,
  { signal, hold }: { readonly signal: AbortSignal; readonly hold: Holding },
): Promise<boolean> {
  const { location, schema, tenant, column } = storage
  const aside = labelAside(location)
  const read = column.isGiven ? readingRows : rowReader
  const reader = await server.owned((client) => hold(client, () => read(client, schema, storage)))
  /** Returns undefined if the rows need migrations, for which `copy` has them. */
  const enter = async (client: pg.ClientBase, copy?: TenantCopy): Promise<boolean | undefined> => {
    await client.query(
      `select pg_advisory_xact_lock(${lockOf(stagingSchemaOf(aside))}); -- of an import into it
       select pg_advisory_xact_lock_shared(${lockOf(schema)}) -- of migrations`,
    )
    const entered = await enteredOf(client, location, 'for update')
    if (entered.locator === location.locator) return true
    if (entered.epoch > location.epoch) return false
    if (!column.isGiven || entered.locator !== '') await assertFenced(client, tenant)
    const searchPath = storage.searchPathOf(schema)
    const shared = {
      ...storage,
      reader,
      searchPath,
      stored: await existingIn(client, schema, searchPath, column),
      facts: await sharedFacts(client, schema, column),
      applied: column.isGiven ? await storage.migrator.applied(client, schema) : [],
      stagingSchema: stagingSchemaOf(aside),
    }
    const left = labelAside({ tenantId: tenant, locator: entered.locator })
    if (column.isGiven) {
      if (!(await exchange(client, shared, entered.locator, { copy, log: server.log }))) return undefined
    } else {
      if (entered.locator !== '') await relabel(client, shared, { from: tenant, to: left })
      await relabel(client, shared, { from: aside, to: tenant })
    }
    await recordEntry(client, location)
    if (entered.locator !== '') await fence(client, left)
    await unfence(client, aside)
    return true
  }
  const run = (copy?: TenantCopy) =>
    server.administer(stagingSchemaOf(tenant), (client) => hold(client, () => enter(client, copy)))
  const isEntered = await run()
  if (isEntered !== undefined) return isEntered
  const migrated = () =>
    server.owned(async (client) => {
      const source = await sourceAside(client, { ...storage, ...location, isolation: 'rowscope-pg' })
      return copyOut(client, source, run, hold)
    })
  const isMigrated = await server.exports.run(signal, migrated)
  // The copy has read the tables until the commit.
  await server.administer(stagingSchemaOf(tenant), async (client) => {
    if ((await enteredOf(client, location, 'for update')).locator === location.locator)
      await dropAside(client, location)
  })
  return isMigrated ?? false
}

/**
 * A delayed process may arrive after the tenant was opened: the rows that it writes later would get the label of the
 * former location.
 */
async function assertFenced(client: pg.ClientBase, tenant: string): Promise<void> {
  const { rowCount } = await client.query('select from tenantry.fenced where tenant = $1 for update', [tenant])
  if (rowCount === 0) throw new Error(`The storage of the tenant "${tenant}" is open: its rows keep their labels`)
}

interface Label {
  readonly from: string
  readonly to: string
}

async function relabel(client: pg.ClientBase, shared: Omit<Shared, 'stagingSchema'>, label: Label): Promise<void> {
  if (shared.facts.canDisableTriggers) await update(client, shared, label)
  else await deleteAndInsert(client, shared, label)
}

/** Runs without triggers of the host and of foreign keys: rows that refer to each other get the same label. */
async function update(
  client: pg.ClientBase,
  { schema, stored }: Omit<Shared, 'stagingSchema'>,
  label: Label,
): Promise<void> {
  await withSettings(client, { ...LOADING, ...TRIGGERS_DISABLED }, () =>
    withoutForce(client, schema, async () => {
      for (const table of stored.tables.filter(isTenants)) {
        await client.query(`update ${from(table, schema)} set tenant_id = $2 where tenant_id = $1`, [
          label.from,
          label.to,
        ])
      }
    }),
  )
}

/** The host's update triggers would change the copied rows. Changes by its insert triggers are detected. */
async function deleteAndInsert(
  client: pg.ClientBase,
  shared: Omit<Shared, 'stagingSchema'>,
  label: Label,
): Promise<void> {
  const { schema, searchPath, scopeRole, stored } = shared
  const stagingSchema = stagingSchemaOf(label.from)
  const name = pg.escapeIdentifier(stagingSchema)
  const tables = stored.tables.filter(isTenants)
  await client.query(`create schema ${name}; ${rightsIn(name, pg.escapeIdentifier(scopeRole))}`)
  await withRowsOf(client, schema, label.from, async () => {
    for (const table of tables) {
      const columns = writable(table).map((column) => pg.escapeIdentifier(column.name))
      await client.query(
        `create table ${qualified(stagingSchema, table.name)} as
         select ${[`${pg.escapeLiteral(label.to)} as tenant_id`, ...columns].join(', ')} from ${from(table, schema)}
         where tenant_id = ${pg.escapeLiteral(label.from)}`,
      )
    }
  })
  const rows = { tenant: label.from, searchPath, scopeRole }
  await deleteTenantRows(client, schema, rows)
  await client.query(`select set_config('${ONE_TENANT}', $1, true)`, [label.to])
  await insertAll(client, { ...shared, tenant: label.to, stagingSchema }, { tables })
  await withRows(() => client.query('set constraints all immediate'))
  await client.query(`drop schema ${name} cascade`)
}
