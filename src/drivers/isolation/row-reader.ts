/**
 * The owner as a reader and writer of one tenant's rows in shared tables, whom row level security binds: where it does not bind the
 * owner itself, the owner takes the role of tenants' queries, and is let through a fence by who it logged in as.
 */
import pg from 'pg'
import { BackupIncompatible } from '../../tenants/copy.ts'
import { relationsOf } from './copy-tables.ts'
import { beginAlone, inTransaction } from './owner-transaction.ts'
import { admitsOwner, withRowsOf } from './row-policies.ts'
import { ONE_TENANT } from './row-policies-sql.ts'
import { isExempt } from './row-removal.ts'

const LOCK_TIMEOUT_MS = 10_000

export interface RowReader {
  /** Whether it sees the rows of all when it takes no role. */
  readonly isExempt: boolean
  /** Statements by which a transaction, whose setting names the tenant, sees and writes its rows alone. */
  readonly statements: readonly string[]
}

/** On a connection of the owner, outside of any transaction. */
export async function rowReader(
  client: pg.ClientBase,
  schema: string,
  { tenant, scopeRole }: { readonly tenant: string; readonly scopeRole: string },
): Promise<RowReader> {
  const names = `select set_config('${ONE_TENANT}', ${pg.escapeLiteral(tenant)}, true)`
  if (await isExempt(client)) {
    const takes = `select set_config('role', ${pg.escapeLiteral(scopeRole)}, true)`
    return { isExempt: true, statements: [names, takes] }
  }
  // Of another version, its policies might admit nobody, in silence: in a transaction that lasts, they could not be changed.
  if (!(await admitsOwner(client, schema))) {
    const change = () => withRowsOf(client, schema, tenant, async () => undefined)
    await inTransaction(client, change, { begin: beginAlone(schema, LOCK_TIMEOUT_MS) })
  }
  return { isExempt: false, statements: [names] }
}

/** The same for whoever copies all rows of the tenant: throws when it might not see them all. */
export async function readingRows(
  client: pg.ClientBase,
  schema: string,
  rows: { readonly tenant: string; readonly scopeRole: string },
): Promise<RowReader> {
  const reader = await rowReader(client, schema, rows)
  await refuseHidden(client, schema, reader.isExempt ? rows.scopeRole : undefined)
  return reader
}

/** Throws when a policy of the host's may keep rows of the tenant from such a reader: a copy would be without them, and look whole. */
async function refuseHidden(client: pg.ClientBase, schema: string, role: string | undefined): Promise<void> {
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
    `The policy "${policy}" of the table "${table}" may hide rows of the tenant from whoever copies them; nothing was read.`,
  )
}
