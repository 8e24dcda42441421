/**
 * Applies row level security to the schema that all tenants of a placement share (rowscope-pg).
 *
 *   host's migrations ──► protectRows() ── rejects ──► E_MIGRATION_FAILED, the transaction is rolled back
 *                              └── repairs ──► every table forced, two policies, the scope role's rights ── no drift: no lock
 *
 *   assertNoExposure()  then checks the rest of the database (exposure.ts)
 *   withoutForce()      gives a migration of the owner the rows of all tenants, in its transaction only
 *   auditRows()         checks the same rules, read only
 *   fence()             from its commit, every statement of that tenant on a protected table raises TN001
 *
 * Guaranteed for statements of the scope role:
 * - Without a tenant they raise 42501, regardless of the tables' content. With a tenant they see, write and conflict
 *   with only that tenant's rows. The scope role does not have TRUNCATE, REFERENCES and TRIGGER.
 * - A policy's name contains the hash of its definition, so a changed policy is found and replaced.
 * Not guaranteed: protection from a superuser or a role with BYPASSRLS. A statement that reads no protected table (a
 * shared one, `select 1`, `where false`) raises nothing.
 *
 * A table with the comment 'tenantry: shared' is lookup data: all tenants read it, the owner's migrations write it.
 *
 * LIKE and other operators that are not leakproof are evaluated after the policy, never as an index condition: slower,
 * not unsafe.
 */
import type pg from 'pg'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { exposuresOf } from './exposure.ts'
import { type Finding, faultsOf, ownerRepairsOf, type Repair, repairsOf, warningsOf } from './rules.ts'
import {
  ALL_TENANTS,
  hardenPolicies,
  ONE_TENANT,
  policyDefinition,
  queryPinned,
  readSchema,
  type SchemaFacts,
} from './sql.ts'
import { TENANT_ID, type TenantColumn } from './tenant-column.ts'

export type { Finding } from './rules.ts'
export { rowObjects } from './sql.ts'

/**
 * Protects every table of the schema, in the transaction of the migrations that created them. Throws
 * `E_MIGRATION_FAILED` with each table that cannot be protected and the remedy. Changes nothing and takes no lock if
 * there is no drift.
 */
export async function protectRows(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  column = TENANT_ID,
): Promise<void> {
  const looked = async () => {
    const facts = await existing(client, schema, scopeRole, column)
    assertNoFindings(faultsOf(facts))
    return { facts, repairs: repairsOf(facts, scopeRole) }
  }
  if ((await looked()).repairs.length === 0) return
  await lockPolicies(client, schema)
  const { facts, repairs } = await looked() // Another process may have repaired it before the lock.
  await repair(client, facts, repairs, [policyDefinition('tenant', scopeRole, column).prefix])
  assertNoFindings((await looked()).repairs)
}

/** Whether `protectRows` has nothing to repair: for a role without its policy, a table has no rows. */
export async function isProtected(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  column = TENANT_ID,
): Promise<boolean> {
  return repairsOf(await existing(client, schema, scopeRole, column), scopeRole).length === 0
}

/** Throws `E_MIGRATION_FAILED` with each object of the whole database that exposes tenants' rows past the policies. */
export async function assertNoExposure(client: pg.ClientBase, schema: string, scopeRole: string): Promise<void> {
  assertNoFindings(await exposuresOf(client, schema, scopeRole))
}

/** The findings that `protectRows` and `assertNoExposure` would reject or repair; empty for a protected schema. */
export async function auditRows(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  column = TENANT_ID,
): Promise<readonly Finding[]> {
  const facts = await existing(client, schema, scopeRole, column)
  const found = [...faultsOf(facts), ...repairsOf(facts, scopeRole), ...(await exposuresOf(client, schema, scopeRole))]
  return found.map(({ object, fault, remedy }) => ({
    object,
    fault,
    remedy,
  }))
}

/** The keys that reveal values to other tenants, of tables of a former application. */
export const auditLinks = async (
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  column = TENANT_ID,
): Promise<readonly Finding[]> => warningsOf(await existing(client, schema, scopeRole, column))

/**
 * Allows the owner to see and write the rows of all tenants while `work` runs, for data migrations: with FORCE the
 * owner sees no rows, an UPDATE would silently change nothing, and a new foreign key would be checked against no rows.
 * Inserts name their tenant_id.
 *
 * Alters no table, so tenants' queries continue and nothing is left open if the process dies: a policy admits a session
 * that logged in as the owner (or a member of it) while a setting of the transaction requests it. Needs an open
 * transaction.
 */
export const withoutForce = <T>(
  client: pg.ClientBase,
  schema: string,
  work: () => Promise<T>,
  column = TENANT_ID,
): Promise<T> => withSetting(client, schema, [ALL_TENANTS, 'on'], work, column)

/** The same for the rows of one tenant. A superuser always sees the rows of all. */
export const withRowsOf = <T>(
  client: pg.ClientBase,
  schema: string,
  tenant: string,
  work: () => Promise<T>,
  column = TENANT_ID,
): Promise<T> => withSetting(client, schema, [ONE_TENANT, tenant], work, column)

async function withSetting<T>(
  client: pg.ClientBase,
  schema: string,
  [name, value]: readonly [string, string],
  work: () => Promise<T>,
  column: TenantColumn,
): Promise<T> {
  if (transactionStatus(client) !== 'T') throw new Error('Access to the rows of tenants needs an open transaction')
  let facts = await existing(client, schema, undefined, column)
  if (ownerRepairsOf(facts).length > 0) {
    await lockPolicies(client, schema)
    facts = await existing(client, schema, undefined, column)
    await repair(client, facts, ownerRepairsOf(facts), []) // A policy of another version might silently admit no role.
  }
  const setValue = (value: string) => client.query('select set_config($1, $2, true)', [name, value])
  await setValue(value)
  let result: T
  try {
    result = await work()
  } catch (error) {
    await setValue('').catch(() => undefined) // A failed transaction rejects the statement and resets the setting at its end.
    throw error
  }
  await setValue('')
  return result
}

/**
 * Denies a tenant the access to its rows on this server. Must be called as the owner. A running statement, and a
 * REPEATABLE READ transaction that began before, can still finish.
 */
export async function fence(client: pg.ClientBase, tenantId: string): Promise<void> {
  await client.query('insert into tenantry.fenced (tenant) values ($1) on conflict do nothing', [tenantId])
}

export async function unfence(client: pg.ClientBase, tenantId: string): Promise<void> {
  await client.query('delete from tenantry.fenced where tenant = $1', [tenantId])
}

const lockPolicies = (client: pg.ClientBase, schema: string) =>
  client.query(`select pg_advisory_xact_lock(hashtextextended('tenantry rows ' || $1, 0))`, [schema])

async function existing(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string | undefined,
  column: TenantColumn,
): Promise<SchemaFacts> {
  const facts = await readSchema(client, schema, scopeRole, column)
  if (!facts) throw MigrationFailed(`Schema "${schema}" or role "${scopeRole ?? ''}" not found.`)
  return facts
}

function assertNoFindings(findings: readonly Finding[]): void {
  if (findings.length === 0) return
  const details = findings.map(({ object, fault, remedy }) => `${object}: ${fault} (${remedy})`)
  throw MigrationFailed(`The rows of tenants cannot be isolated. ${details.join('; ')}`)
}

/** @param prefixes of the policies to create, in addition to the owner's */
async function repair(
  client: pg.ClientBase,
  { name, owner, column }: SchemaFacts,
  repairs: readonly Repair[],
  prefixes: readonly string[],
): Promise<void> {
  if (repairs.length === 0) return
  await queryPinned(
    client,
    'set constraints all immediate', // rows that wait for their check keep a table from being altered
    ...repairs.map(({ statement }) => statement),
    hardenPolicies(name, [...prefixes, policyDefinition('owner', owner, column).prefix]),
  )
}

const transactionStatus = (client: pg.ClientBase): string | null =>
  (client as unknown as { getTransactionStatus(): string | null }).getTransactionStatus()
