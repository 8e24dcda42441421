/**
 * The owner as a reader and writer of one tenant's rows in shared tables, whom row level security binds: where it does not bind the
 * owner itself, the owner takes the role of tenants' queries, and is let through a fence by who it logged in as.
 */
import pg from 'pg'
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'
import { relationsOf } from '../catalog/tables.ts'
import { beginAlone, inTransaction } from '../transactions/owner-transaction.ts'
import { isProtected, protectRows } from './apply.ts'
import { isExempt } from './delete-rows.ts'
import { ONE_TENANT } from './sql.ts'

const LOCK_TIMEOUT_MS = 10_000

interface Rows {
  readonly tenant: string
  readonly scopeRole: string
}

export interface RowReader {
  /** Whether it sees the rows of all when it takes no role. */
  readonly isExempt: boolean
  /** The statement that lets the owner past the tenant's fence. */
  readonly names: string
  /** Statements by which a transaction, whose setting names the tenant, sees and writes its rows alone. */
  readonly statements: readonly string[]
}

/** On a connection of the owner, outside of any transaction. */
export async function rowReader(
  client: pg.ClientBase,
  schema: string,
  { tenant, scopeRole }: Rows,
): Promise<RowReader> {
  // In a transaction that lasts, policies could not be put right; without them there would be fewer rows, in silence.
  if (!(await isProtected(client, schema, scopeRole))) {
    const protect = () => protectRows(client, schema, scopeRole)
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

/** The same for whoever copies all rows of the tenant: throws when it might not see them all. */
export async function readingRows(client: pg.ClientBase, schema: string, rows: Rows): Promise<RowReader> {
  const reader = await rowReader(client, schema, rows)
  await assertRowsVisible(client, schema, reader.isExempt ? rows.scopeRole : undefined)
  return reader
}

/** Throws when a policy of the host's may keep rows of the tenant from such a reader: a copy would be without them, and look whole. */
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
    `The policy "${policy}" of the table "${table}" may hide rows of the tenant from whoever copies them; nothing was read.`,
  )
}
