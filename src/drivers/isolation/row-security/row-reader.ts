/**
 * Gives the owner access to one tenant's rows in shared tables under row level security. An owner that policies do not
 * bind takes the role of tenants' queries. The login of the session opens the fence.
 */
import pg from 'pg'
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'
import { relationsOf } from '../catalog/tables.ts'
import { beginAlone, inTransaction } from '../transactions/owner-transaction.ts'
import { isProtected, protectRows } from './apply.ts'
import { isExempt } from './delete-rows.ts'
import { ONE_TENANT } from './sql.ts'
import type { TenantColumn } from './tenant-column.ts'

const LOCK_TIMEOUT_MS = 10_000

interface Rows {
  readonly column?: TenantColumn
  readonly tenant: string
  readonly scopeRole: string
}

export interface RowReader {
  /** Whether it sees the rows of all tenants without another role. */
  readonly isExempt: boolean
  /** The statement that opens the tenant's fence for the owner. */
  readonly names: string
  /** Statements after which a transaction sees and writes only the rows of the tenant. */
  readonly statements: readonly string[]
}

/** Runs on a connection of the owner, outside of any transaction. */
export async function rowReader(
  client: pg.ClientBase,
  schema: string,
  { tenant, scopeRole, column }: Rows,
): Promise<RowReader> {
  // A long transaction could not repair policies; without them rows would silently be missing.
  if (!(await isProtected(client, schema, scopeRole, column))) {
    const protect = () => protectRows(client, schema, scopeRole, column)
    await inTransaction(client, protect, { begin: beginAlone(schema, LOCK_TIMEOUT_MS) })
  }
  const names = `select set_config('${ONE_TENANT}', ${pg.escapeLiteral(tenant)}, true)`
  if (!(await isExempt(client))) return { isExempt: false, names, statements: [names] }
  return {
    isExempt: true,
    names,
    statements: [names, `select set_config('role', ${pg.escapeLiteral(scopeRole)}, true)`],
  }
}

/** The same for a copy of all rows of the tenant. Throws if rows might be hidden. */
export async function readingRows(client: pg.ClientBase, schema: string, rows: Rows): Promise<RowReader> {
  const reader = await rowReader(client, schema, rows)
  await assertRowsVisible(client, schema, reader.isExempt ? rows.scopeRole : undefined)
  return reader
}

/**
 * Throws if a policy of the host may hide rows of the tenant from the reader: the copy would silently be incomplete.
 */
async function assertRowsVisible(client: pg.ClientBase, schema: string, role: string | undefined): Promise<void> {
  const reader = role === undefined ? 'current_user' : `${pg.escapeLiteral(role)}::name`
  const { rows } = await client.query(`
    with ${relationsOf(schema)}
    select relname as table, polname as policy from relation join pg_policy on polrelid = relation.oid
    where not polpermissive and polcmd in ('*', 'r') and exists (
      select from unnest(polroles) as role where role = 0 or pg_has_role(${reader}, role, 'usage'))
    order by 1, 2 limit 1`)
  if (!rows[0]) return
  const { table, policy } = rows[0]
  throw BackupIncompatible(
    `The policy "${policy}" of the table "${table}" may hide rows of the tenant from a copy; nothing was read.`,
  )
}
