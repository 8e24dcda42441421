/**
 * Records which of a tenant's storage locations has the rows with the tenant's id. During a restore, and while a former
 * location is kept, the same tables have rows of several locations of one tenant. Queries of the tenant reach those of
 * the *entered* one, whose `tenant_id` is the tenant's id. The rows of each other location have a label that is no
 * tenant's id.
 *
 *   provision, import ─► claim     no location is entered here: this one becomes entered
 *   switch, unfence   ─► enter     another one is entered: the labels are swapped (copy/enter-rows.ts)
 *   unfence           ─► settle    the registry names this location: an older one is not entered again
 *   drop              ─► leave     no location is entered; kept locations have their labels
 *
 * Tables with a given tenant column have rows of the entered location only. Those of the others are in a schema of their
 * own (copy/aside-schema.ts): `reserve` instead of `claim`, and the rows are exchanged instead of their labels.
 */
import type pg from 'pg'
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'

export type RowLocation = Pick<StorageLocation, 'tenantId' | 'locator' | 'epoch'>

/**
 * Run as the owner. `epoch` is that of the location which was last entered and opened, and not 0 after a drop. `row_copies` has the descriptions of
 * the copies in copy/aside-schema.ts.
 */
export const ROW_LOCATIONS = `
  create table if not exists tenantry.row_locations (
    tenant text primary key, locator text not null, epoch integer not null default 0);
  create table if not exists tenantry.row_copies (
    tenant text, locator text, description jsonb not null, primary key (tenant, locator))`

/** The label for rows of a location that is not entered. A tenant's id has no `~`. */
export const labelAside = ({ tenantId, locator }: Pick<RowLocation, 'tenantId' | 'locator'>): string =>
  locator === tenantId ? `${tenantId}~1` : locator

/** @param entered the locator of the entered location */
export const labelIn = (location: Omit<RowLocation, 'epoch'>, entered: string): string =>
  location.locator === entered ? location.tenantId : labelAside(location)

/** The value of `tenant_id` in the rows of a location. Before a location is entered, it is that of the first one. */
export async function labelOf(client: pg.ClientBase, location: RowLocation): Promise<string> {
  return labelIn(location, (await enteredOf(client, location)).locator)
}

/** The locator of the entered location, empty after a drop, and the epoch that was settled last. */
export async function enteredOf(
  client: pg.ClientBase,
  { tenantId }: RowLocation,
  lock: '' | 'for update' = '',
): Promise<{ locator: string; epoch: number }> {
  const { rows } = await client.query(`select locator, epoch from tenantry.row_locations where tenant = $1 ${lock}`, [
    tenantId,
  ])
  return rows[0] ?? { locator: tenantId, epoch: 0 }
}

/**
 * Enters the location if the tenant never had one. Returns the label of its rows.
 * @param how `new`: the tenant has no rows yet, also if a location was dropped here
 */
export async function claim(client: pg.ClientBase, location: RowLocation, how?: 'new'): Promise<string> {
  const { tenantId, locator } = location
  const again =
    how === 'new' ? `update set locator = excluded.locator, epoch = 0 where entered.locator = ''` : 'nothing'
  await client.query(
    `insert into tenantry.row_locations as entered (tenant, locator) values ($1, $2) on conflict (tenant) do ${again}`,
    [tenantId, locator],
  )
  return labelOf(client, location)
}

/** Records that no location is entered yet, if the tenant never had one. */
export async function reserve(client: pg.ClientBase, { tenantId }: RowLocation): Promise<string> {
  await client.query(`insert into tenantry.row_locations (tenant, locator) values ($1, '') on conflict do nothing`, [
    tenantId,
  ])
  return tenantId
}

/** Whether the rows with the tenant's id are known to be those of this location. */
export async function isEntered(client: pg.ClientBase, { tenantId, locator }: RowLocation): Promise<boolean> {
  const { rowCount } = await client.query('select from tenantry.row_locations where tenant = $1 and locator = $2', [
    tenantId,
    locator,
  ])
  return rowCount === 1
}

/** Whether no location is entered, but one was: rows with the tenant's id were written since by other applications. */
export async function wasEntered(client: pg.ClientBase, location: RowLocation): Promise<boolean> {
  const { locator, epoch } = await enteredOf(client, location)
  return locator === '' && epoch > 0
}

/** Marks the location as entered, in the transaction that has given its rows the tenant's id. */
export async function recordEntry(client: pg.ClientBase, { tenantId, locator }: RowLocation): Promise<void> {
  await client.query(
    `insert into tenantry.row_locations (tenant, locator) values ($1, $2)
     on conflict (tenant) do update set locator = excluded.locator`,
    [tenantId, locator],
  )
}

/** Returns false if no location or another one is entered. */
export async function settle(client: pg.ClientBase, { tenantId, locator, epoch }: RowLocation): Promise<boolean> {
  const { rowCount } = await client.query(
    `insert into tenantry.row_locations as entered (tenant, locator, epoch)
     select $1, $2, $3 where $2 = $1 or exists (select from tenantry.row_locations where tenant = $1)
     on conflict (tenant) do update set epoch = greatest(entered.epoch, excluded.epoch)
     where entered.locator = excluded.locator`,
    [tenantId, locator, epoch],
  )
  return rowCount === 1
}

/** Marks the location as not entered. Rows of other locations keep their labels. */
export async function leave(client: pg.ClientBase, { tenantId, locator }: RowLocation): Promise<void> {
  await client.query(
    `update tenantry.row_locations set locator = '', epoch = greatest(epoch, 1) where tenant = $1 and locator = $2`,
    [tenantId, locator],
  )
}

/** A tenant's statements do not reach a location that is not entered: the effect is that of a fence. */
export async function isClosed(client: pg.ClientBase, location: RowLocation): Promise<boolean> {
  const label = await labelOf(client, location)
  if (label !== location.tenantId) return true
  const { rowCount } = await client.query('select from tenantry.fenced where tenant = $1', [label])
  return rowCount === 1
}

/** The locators of fenced locations. */
export const FENCED_LOCATORS = `
  select coalesce(nullif(entered.locator, ''), regexp_replace(fenced.tenant, '~1$', '')) as locator, true as "isFenced"
  from tenantry.fenced left join tenantry.row_locations entered on entered.tenant = fenced.tenant`
