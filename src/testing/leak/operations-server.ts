/**
 * Operations of the leak fuzzer that use the server directly: terminated and cancelled backends, statements of the
 * tenants' login without a scope, and inspections of connections.
 */
import { MARKS } from '../../drivers/isolation/scope/scoped-query.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database, sqlState } from '../../kernel/database/database.ts'
import type { StorageView } from '../base/subject.ts'
import { type LeakOperation, raw, writing } from './operations.ts'
import { ALL_ITEMS } from './operations-postgres.ts'
import type { FuzzedTenant, FuzzStep } from './step.ts'

const CANCELLED = '57014'
/** SQLSTATE for two concurrent changes of one role. */
const CONCURRENTLY_UPDATED = 'XX000'
const log = createLogger({ level: 'silent' })

/** Connections without a tenant: of the superuser, and of the tenants' login without a scope. */
export class Outside {
  readonly #databases = new Map<string, Database>()

  /** Runs a statement as the superuser, in the database of a tenant. */
  async all({ url }: StorageView, text: string, values: readonly unknown[] = []): Promise<any[]> {
    return (await this.#database(url).sql(text, values)).rows
  }

  /** Runs a statement as the tenants' login, without a scope. */
  async unscoped({ tenantUrl }: StorageView, text: string): Promise<any[]> {
    return (await this.#database(tenantUrl).sql(text)).rows
  }

  async close(): Promise<void> {
    await Promise.all([...this.#databases.values()].map((database) => database.close()))
  }

  #database(url: string): Database {
    const database = this.#databases.get(url) ?? new Database({ url, max: 2 }, log)
    this.#databases.set(url, database)
    return database
  }
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
export const itemsOf = ({ schema }: StorageView): string => `${quoted(schema)}.items`

export function serverOperations(outside: Outside): readonly LeakOperation[] {
  return [
    { name: 'unscoped canary', weight: 2, run: (step) => canary(step, outside) },
    { name: 'database of another', weight: 1, run: (step) => reachesAnother(step, outside) },
    { name: 'defaults of the login', weight: 2, run: altersItsLogin },
    { name: 'backend terminated', weight: 1, run: (step) => terminated(step, outside) },
    { name: 'backend cancelled', weight: 1, run: (step) => cancelled(step, outside) },
    { name: 'connection inspected', weight: 6, run: inspected },
  ]
}

async function canary(step: FuzzStep, outside: Outside): Promise<void> {
  const { view, location } = step.tenant
  if (!view) return
  const items = itemsOf(view)
  const text = step.random.pick([
    `select owner from ${items}`,
    `select count(*) from ${items}`,
    `insert into ${items} (tenant_id, id, owner) values ('${location.locator}', 5000000, '${step.mark}')`,
    `update ${items} set owner = 'unknown'`,
    `delete from ${items}`,
    `truncate ${items}`,
    `with tenant as (select set_config('app.tenant_id', '${location.locator}', false)) select owner from tenant, ${items}`,
  ])
  await step.rejected(outside.unscoped(view, text), '42501')
}

/** If each tenant has its own login, that login must not reach the database of another tenant. */
async function reachesAnother(step: FuzzStep, outside: Outside): Promise<void> {
  const [view, theirs] = [step.tenant.view, step.other.view]
  if (!view || !theirs) return
  const [own, other] = [new URL(view.tenantUrl), new URL(theirs.tenantUrl)]
  if (own.username === other.username) return
  own.pathname = other.pathname
  await step.rejected(outside.unscoped({ ...theirs, tenantUrl: own.href }, 'select 1'), '42501')
}

/**
 * Every role may change its own defaults, and tenants may share a login: no session may start with changed defaults.
 */
async function altersItsLogin(step: FuzzStep): Promise<void> {
  const setting = step.random.pick([
    'standard_conforming_strings = off',
    `datestyle = 'German'`,
    `statement_timeout = '71s'`,
    `default_transaction_isolation = serializable`,
  ])
  const altered = step.handle.transaction(async (db) => {
    await raw(db, 'set local role none')
    await raw(db, `alter role current_user set ${setting}`)
  })
  await altered.catch((error) => {
    if (sqlState(error) !== CONCURRENTLY_UPDATED) throw error
  })
}

/** A connection that is lost in a transaction loses the writes of the transaction. */
async function terminated(step: FuzzStep, outside: Outside): Promise<void> {
  const { view } = step.tenant
  if (!view) return
  const lost = step.handle.transaction(async (db) => {
    const [{ pid }] = (await raw(db, 'select pg_backend_pid() as pid')) as [{ pid: number }]
    step.see(await raw(db, writing(step, step.id(), 6_666)))
    await outside.all(view, 'select pg_terminate_backend($1, 5000)', [pid])
    step.see(await raw(db, ALL_ITEMS))
  })
  await step.rejected(lost, '57P01', 'ECONNRESET', 'EPIPE', /Connection terminated|not queryable|connection error/)
}

async function cancelled(step: FuzzStep, outside: Outside): Promise<void> {
  const { view } = step.tenant
  if (!view) return
  const client = await step.handle.pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query('select pg_backend_pid() as pid')
    let isFinished = false
    const slow = client.query(`${writing(step, step.id(), 5_555)}, pg_sleep(60)`).finally(() => {
      isFinished = true
    })
    const cancel = async () => {
      while (!isFinished) await outside.all(view, 'select pg_cancel_backend($1)', [rows[0].pid])
    }
    await Promise.all([step.rejected(slow, CANCELLED), cancel()])
    // A cancel request may arrive after its statement has ended: it may hit this client, but not the next one.
    for (let calm = 0; calm < 3; calm++) await client.query('select 1').catch(() => undefined)
    await client.query('rollback')
  } finally {
    client.release()
  }
  step.compare(await raw(step.handle.db, ALL_ITEMS))
}

/** State that the next tenant would find on a connection; the query itself must not reset any of it. */
const INSPECTION = `select current_user as role, session_user as login, current_setting('search_path') as path,
  current_setting('app.tenant_id') as tenant,
  (select count(*)::int from pg_class where relnamespace = pg_my_temp_schema()) as "temporary tables",
  coalesce(current_setting('app.fuzz', true), '') as setting, current_setting('statement_timeout') as timeout,
  length('\\') as "characters of a backslash", '2026-12-31'::date::text as "form of a day",
  current_setting('row_security') as "row security", current_setting('transaction_isolation') as isolation,
  current_setting('transaction_read_only') as "read only",
  (select count(*)::int from pg_locks where locktype = 'advisory' and classid <> ${MARKS} and pid = pg_backend_pid()) as locks,
  (select count(*)::int from pg_cursors where name like 'fuzz%') as cursors,
  (select count(*)::int from pg_prepared_statements where name like 'fuzz%') as statements,
  (select count(*)::int from pg_listening_channels()) as channels`

const CLEAN = {
  'temporary tables': 0,
  setting: '',
  timeout: '0',
  'characters of a backslash': 1,
  'form of a day': '2026-12-31',
  'row security': 'on',
  isolation: 'read committed',
  'read only': 'off',
  locks: 0,
  cursors: 0,
  statements: 0,
  channels: 0,
}

/** Role, database and scope of each tenant's first inspection. */
const identities = new WeakMap<FuzzedTenant, string>()

export async function inspected(step: FuzzStep): Promise<void> {
  judge(step, (await raw(step.handle.db, INSPECTION))[0])
}

export async function inspectedInside(step: FuzzStep, inside: () => Promise<void>): Promise<void> {
  await step.handle.transaction(async (db) => {
    judge(step, (await raw(db, INSPECTION))[0])
    await inside()
  })
}

function judge(step: FuzzStep, found: Record<string, unknown> | undefined): void {
  if (!found) {
    step.violate('an inspection returned no row')
    return
  }
  const { role, login, path, tenant, ...session } = found
  for (const [what, clean] of Object.entries(CLEAN)) {
    if (session[what] !== clean) step.violate(`left on a connection: ${what} is ${JSON.stringify(session[what])}`)
  }
  const identity = JSON.stringify({ role, login, path, tenant })
  const known = identities.get(step.tenant) ?? identity
  identities.set(step.tenant, known)
  if (identity !== known) step.violate(`the scope is ${identity}, expected ${known}`)
}
