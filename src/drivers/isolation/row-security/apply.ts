/**
 * Row level security over the one schema that all tenants of a placement share (rowscope-pg).
 *
 *   host's migrations ──► protectRows() ── refuses ──► E_MIGRATION_FAILED, the transaction is rolled back
 *                              └── repairs ──► every table forced, two policies, the scope role's rights ── nothing drifted: no lock
 *
 *   refuseExposure() then looks at the rest of the database (exposure.ts)
 *   withoutForce()   a migration of the owner sees the rows of all tenants, in its transaction only
 *   auditRows()      the same rules, read only
 *   fence()          from its commit on, every statement of that tenant on a protected table raises TN001
 *
 * Guaranteed, for statements of the scope role: without a tenant they raise 42501, whatever the tables hold; with one they see,
 * write and conflict with that tenant's rows only; TRUNCATE, REFERENCES and TRIGGER are not theirs. A policy's name carries the
 * hash of what it says, so one that was changed, by whomever, is found and replaced. Not guaranteed: anything against a superuser
 * or a role with BYPASSRLS. What does not read a protected table (a shared one, `select 1`, `where false`) raises nothing.
 *
 * A table with the comment 'tenantry: shared' is lookup data: all tenants read it, the owner's migrations write it.
 *
 * LIKE and other operators that are not leakproof are tried after the policy, never as an index condition: slower, not unsafe.
 */
import type pg from 'pg'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { exposuresOf } from './exposure.ts'
import { type Finding, faultsOf, ownerRepairsOf, type Repair, repairsOf } from './rules.ts'
import {
  ALL_TENANTS,
  hardenPolicies,
  ONE_TENANT,
  policyDefinition,
  queryPinned,
  readSchema,
  type SchemaFacts,
} from './sql.ts'

export type { Finding } from './rules.ts'
export { rowObjects } from './sql.ts'

/**
 * Protects every table of the schema, in the transaction of the migrations that made them. Throws `E_MIGRATION_FAILED`, naming
 * each table that cannot be protected, and what to do about it. Changes nothing, and takes no lock, when nothing has drifted.
 */
export async function protectRows(client: pg.ClientBase, schema: string, scopeRole: string): Promise<void> {
  const looked = async () => {
    const facts = await existing(client, schema, scopeRole)
    assertNoFindings(faultsOf(facts))
    return { facts, repairs: repairsOf(facts, scopeRole) }
  }
  if ((await looked()).repairs.length === 0) return
  await lockPolicies(client, schema)
  const { facts, repairs } = await looked() // somebody else may have done it meanwhile
  await repair(client, facts, repairs, [policyDefinition('tenant', scopeRole).prefix])
  assertNoFindings((await looked()).repairs)
}

/** Whether there is nothing that `protectRows` would repair: without its policy, a table has no rows for whom that is for. */
export async function isProtected(client: pg.ClientBase, schema: string, scopeRole: string): Promise<boolean> {
  return repairsOf(await existing(client, schema, scopeRole), scopeRole).length === 0
}

/** Throws `E_MIGRATION_FAILED` naming each object of the whole database that shows the rows of tenants past the policies. */
export async function assertNoExposure(client: pg.ClientBase, schema: string, scopeRole: string): Promise<void> {
  assertNoFindings(await exposuresOf(client, schema, scopeRole))
}

/** What `protectRows` and `refuseExposure` would refuse or repair; empty for a schema that is protected as it has to be. */
export async function auditRows(client: pg.ClientBase, schema: string, scopeRole: string): Promise<readonly Finding[]> {
  const facts = await existing(client, schema, scopeRole)
  const found = [...faultsOf(facts), ...repairsOf(facts, scopeRole), ...(await exposuresOf(client, schema, scopeRole))]
  return found.map(({ object, fault, remedy }) => ({
    object,
    fault,
    remedy,
  }))
}

/**
 * Lets the owner see and write the rows of all tenants while `work` runs, as a data migration needs it: FORCE would show it none,
 * an UPDATE would silently change nothing, and a new foreign key would be checked against no rows. Inserts name their tenant_id.
 *
 * No table is altered, so tenants' queries go on and nothing is left open if the process dies: a policy admits who logged in as
 * the owner (or may become it) while a setting of the transaction asks for it. Needs an open transaction.
 */
export const withoutForce = <T>(client: pg.ClientBase, schema: string, work: () => Promise<T>): Promise<T> =>
  withSetting(client, schema, [ALL_TENANTS, 'on'], work)

/** The same for the rows of one tenant. A superuser sees those of all, here as always. */
export const withRowsOf = <T>(
  client: pg.ClientBase,
  schema: string,
  tenant: string,
  work: () => Promise<T>,
): Promise<T> => withSetting(client, schema, [ONE_TENANT, tenant], work)

async function withSetting<T>(
  client: pg.ClientBase,
  schema: string,
  [name, value]: readonly [string, string],
  work: () => Promise<T>,
): Promise<T> {
  if (transactionStatus(client) !== 'T') throw new Error('to see the rows of tenants needs an open transaction')
  let facts = await existing(client, schema)
  if (ownerRepairsOf(facts).length > 0) {
    await lockPolicies(client, schema)
    facts = await existing(client, schema)
    await repair(client, facts, ownerRepairsOf(facts), []) // of another version, it might admit nobody, in silence
  }
  const setValue = (value: string) => client.query('select set_config($1, $2, true)', [name, value])
  await setValue(value)
  let result: T
  try {
    result = await work()
  } catch (error) {
    await setValue('').catch(() => undefined) // refused by a transaction that has failed, which takes the setting with it
    throw error
  }
  await setValue('')
  return result
}

/**
 * Shuts a tenant out of its rows on this server; to be called as the owner. A statement that was already running, and a
 * REPEATABLE READ transaction that began before, may still finish.
 */
export async function fence(client: pg.ClientBase, tenantId: string): Promise<void> {
  await client.query('insert into tenantry.fenced (tenant) values ($1) on conflict do nothing', [tenantId])
}

export async function unfence(client: pg.ClientBase, tenantId: string): Promise<void> {
  await client.query('delete from tenantry.fenced where tenant = $1', [tenantId])
}

const lockPolicies = (client: pg.ClientBase, schema: string) =>
  client.query(`select pg_advisory_xact_lock(hashtextextended('tenantry rows ' || $1, 0))`, [schema])

async function existing(client: pg.ClientBase, schema: string, scopeRole?: string): Promise<SchemaFacts> {
  const facts = await readSchema(client, schema, scopeRole)
  if (!facts) throw MigrationFailed(`The schema "${schema}" or the role "${scopeRole ?? ''}" is not there.`)
  return facts
}

function assertNoFindings(findings: readonly Finding[]): void {
  if (findings.length === 0) return
  const details = findings.map(({ object, fault, remedy }) => `${object}: ${fault} (${remedy})`)
  throw MigrationFailed(`The rows of tenants cannot be kept apart. ${details.join('; ')}`)
}

/** @param prefixes of the policies that are made, besides the owner's. */
async function repair(
  client: pg.ClientBase,
  { name, owner }: SchemaFacts,
  repairs: readonly Repair[],
  prefixes: readonly string[],
): Promise<void> {
  if (repairs.length === 0) return
  await queryPinned(
    client,
    'set constraints all immediate', // rows that wait for their check keep a table from being altered
    ...repairs.map(({ statement }) => statement),
    hardenPolicies(name, [...prefixes, policyDefinition('owner', owner).prefix]),
  )
}

const transactionStatus = (client: pg.ClientBase): string | null =>
  (client as unknown as { getTransactionStatus(): string | null }).getTransactionStatus()
